"""Engines turn prompts into completions: a module for each engine."""
