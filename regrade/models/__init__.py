"""Resolve a model name to one exact model: in a folder, on the Hub, or on a server."""

from regrade.models.adapters import with_adapter
from regrade.models.base import ResolvedModel
from regrade.models.hub import with_pinned_code
from regrade.models.resolving import resolve_here
from regrade.models.served import resolve_served, resolve_served_by_all

__all__ = [
    "ResolvedModel",
    "resolve_here",
    "resolve_served",
    "resolve_served_by_all",
    "with_adapter",
    "with_pinned_code",
]
