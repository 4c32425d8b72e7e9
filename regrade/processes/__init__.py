"""Supervised processes, shutdown, and threads that repeat an action."""
