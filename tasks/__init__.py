"""The steps of a flow, as Prefect tasks: retries, run names, artifacts. The work itself is in `regrade`."""
