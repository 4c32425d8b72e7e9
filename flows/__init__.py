"""The five flows, one per file, and their shared modules: generating, scoring, gating."""
