"""All of the library that names Prefect: forms, servers, workers, events and artifacts."""
