"""The flows, one per file, and their shared modules: generating, judging, scoring, gating, sweeping."""
