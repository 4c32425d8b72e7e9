"""Estimates, their errors, tests, and charts."""
