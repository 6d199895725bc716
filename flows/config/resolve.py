"""A run request with the settings' defaults filled in."""

from blueprints.types import Blueprint
from flows.config.settings import Settings
from flows.runs.request import CONFIGURED, ResolvedRequest, RunRequest


def resolve_request(
    request: RunRequest, definition: Blueprint, settings: Settings
) -> ResolvedRequest:
    """The request with its blueprint, and with agent, model and budget where it names none."""
    given = dict(request)
    if request.agent == CONFIGURED:
        given["agent"] = settings.agent
    given["model"] = request.model or settings.model
    given["budget_usd"] = request.budget_usd or settings.budget_usd
    return ResolvedRequest.of(**{**given, "definition": definition})
