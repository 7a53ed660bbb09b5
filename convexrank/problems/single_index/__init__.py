"""Regression with an unknown increasing link: learned divergences."""
