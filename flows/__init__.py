"""The flows, one a file, and what they share: generating, scoring, gating."""
