"""Evaluations over a grid of settings: the points, their measurements and tests."""
