"""vLLM in a worker process: the owner's side begins in `engine.py`, the worker's in `worker.py`."""
