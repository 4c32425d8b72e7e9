"""Results as text: tables, pages, files, and the progress of a run."""
