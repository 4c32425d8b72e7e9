"""Start, follow and cancel flow runs on another machine, and read their results."""
