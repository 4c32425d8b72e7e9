"""Client of the Hugging Face Hub: HTTP, errors and retries."""
