"""Settings that fit a machine: memory plans, sweeps and tuning."""
