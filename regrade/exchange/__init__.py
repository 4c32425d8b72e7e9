"""Answers and scores of other tools: importing and exporting."""
