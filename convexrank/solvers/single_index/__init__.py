"""Perceptron-like methods for an unknown increasing link."""
