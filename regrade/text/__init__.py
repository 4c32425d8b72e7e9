"""Text of results: tables, numbers, Markdown."""
