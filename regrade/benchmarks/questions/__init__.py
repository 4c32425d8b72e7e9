"""Reading of questions, and their conversion to samples and prompts."""
