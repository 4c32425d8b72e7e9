"""The viewer: read-only web pages for reading stored answers (docs/viewing.md)."""
