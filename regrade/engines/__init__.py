"""Engines, one a file: what turns prompts into completions."""
