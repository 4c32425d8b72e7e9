"""Estimates, standard errors, significance tests and charts."""
