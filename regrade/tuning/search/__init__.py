"""Find the settings that are fastest for a model, a machine and a kind of workload."""
