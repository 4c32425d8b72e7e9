"""Modules that run inside the sandbox, on any Python from 3.9 on: they import only the standard library and each other."""
