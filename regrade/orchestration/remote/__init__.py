"""Client for flow runs on another machine: start, follow, cancel, read the result."""
