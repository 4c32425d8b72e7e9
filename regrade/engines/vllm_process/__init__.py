"""vLLM in a worker process, with the owner's side (`engine.py`) and the worker's (`worker.py`)."""
