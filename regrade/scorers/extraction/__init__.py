"""Extraction of answers from texts, in whole columns."""
