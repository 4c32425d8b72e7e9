"""Engines, which turn prompts into completions. Each module here defines one engine."""
