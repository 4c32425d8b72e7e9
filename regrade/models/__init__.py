"""Resolve a model name to one exact model: in a folder, on the Hub, or on a server."""
