"""Answers that other tools made, read as answer sets: one format a file."""
