"""Which model, exactly: a folder, a model on the Hub, or what a server serves."""

from regrade.models.base import ResolvedModel
from regrade.models.resolving import resolve_here
from regrade.models.served import resolve_served

__all__ = ["ResolvedModel", "resolve_here", "resolve_served"]
