"""Prometheus metrics of an evaluation while it runs."""
