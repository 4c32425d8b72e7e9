"""`regrade deploy`: work pools, deployments, triggers and automations on a Prefect server."""
