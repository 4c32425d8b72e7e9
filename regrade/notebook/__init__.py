"""The library in a notebook: `regrade.open`, `regrade.score`, `regrade.evaluate` (docs/notebook.md)."""
