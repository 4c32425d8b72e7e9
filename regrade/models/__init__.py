"""Which model, exactly: a folder, a model on the Hub, or what a server serves."""

from regrade.models.resolving import ResolvedModel, resolve_model

__all__ = ["ResolvedModel", "resolve_model"]
