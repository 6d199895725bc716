"""Fill in the defaults of a run request from the settings."""

from blueprints.types import Blueprint
from flows.config.settings import Settings
from flows.runs.request import CONFIGURED, ResolvedRequest, RunRequest


def resolve_request(
    request: RunRequest, definition: Blueprint, settings: Settings
) -> ResolvedRequest:
    """Return the request with its blueprint, and with agent, model and budget if it has none."""
    fields = dict(request)
    if request.agent == CONFIGURED:
        fields["agent"] = settings.agent
    fields["model"] = request.model or settings.model
    fields["budget_usd"] = request.budget_usd or settings.budget_usd
    return ResolvedRequest.of(**{**fields, "definition": definition})
