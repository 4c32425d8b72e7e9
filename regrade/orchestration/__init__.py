"""All modules of the library that use Prefect: forms, servers, workers, events and artifacts."""
