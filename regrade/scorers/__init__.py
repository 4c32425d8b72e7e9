"""One scorer a file: what is read out of an answer, and when it counts as right."""
