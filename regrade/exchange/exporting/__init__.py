"""Results and answers in the formats of other tools, and results for model pages on the Hub (docs/export.md)."""
