"""vLLM in a process of its own: the owner's side and the worker's."""
