"""Judge runs: questions made from stored answers, and what is read from the verdicts."""
