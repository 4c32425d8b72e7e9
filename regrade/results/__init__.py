"""Results as text: tables, markdown pages, report files; progress display of a run."""
