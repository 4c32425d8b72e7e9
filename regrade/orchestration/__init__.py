"""The library's part of Prefect: forms, servers, workers, events, artifacts and deployments."""
