"""Steps of the flows as Prefect tasks: retries, run names, artifacts. The library `regrade` does the work."""
