"""Feasibility of an increasing link."""
