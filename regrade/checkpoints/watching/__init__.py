"""Revisions of models on the Hub and in folders, for `watch-models`."""
