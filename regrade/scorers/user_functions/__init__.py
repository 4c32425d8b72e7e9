"""Scorers that users write as plain functions, in a file or in a package."""
