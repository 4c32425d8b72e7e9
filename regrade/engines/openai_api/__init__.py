"""A client for servers with an OpenAI-compatible API."""
