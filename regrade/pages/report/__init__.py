"""A report to hand on: results, comparisons, plots and chosen answers in one file (docs/report.md)."""
