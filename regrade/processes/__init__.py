"""Processes: supervision, shutdown, slots, limits, the sandbox, guards of local web servers, metrics."""
