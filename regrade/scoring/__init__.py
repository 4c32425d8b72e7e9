"""Scoring stored answers, and comparing two scorings of the same answers."""
