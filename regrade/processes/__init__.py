"""Processes that end with their owner, and threads that repeat an action."""
