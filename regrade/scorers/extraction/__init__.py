"""Extracting an answer from a text, over whole columns."""
