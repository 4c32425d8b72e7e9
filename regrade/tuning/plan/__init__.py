"""Plans of memory: which splits of a model fit on GPUs, and how many requests they hold."""
