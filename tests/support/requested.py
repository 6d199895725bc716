"""Run requests of tests."""

from pathlib import Path

from blueprints.types import Blueprint
from flows.runs.request import ResolvedRequest


def requested(definition: Blueprint, repo: str | Path, **fields: object) -> ResolvedRequest:
    """A request of this blueprint for the native agent; `fields` are those of `ResolvedRequest`."""
    given = {"blueprint": definition.name, "agent": "native", "model": "none", **fields}
    return ResolvedRequest.of(definition=definition, repo=str(repo), **given)
