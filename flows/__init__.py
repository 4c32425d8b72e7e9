"""The flows, one per file, and their shared modules: generating, asking again, judging, scoring, gating, sweeping."""
