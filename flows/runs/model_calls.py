"""The calls of models in a trajectory: when, by which node, how many tokens."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from contracts.chat import Usage
from providers.read_trajectory import read_trajectory
from providers.usage import usage_from


class ModelCall(NamedTuple):
    """One answered call; nothing of what was said."""

    model: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int | float]


def model_calls(trajectory: Path) -> Iterator[ModelCall]:
    """The calls, in the order they were answered; a line that cannot be read is left out."""
    for event in _events(trajectory, "reply"):
        with suppress(ValueError, KeyError, TypeError):
            yield _call(event)


def total_usage(trajectory: Path) -> Usage | None:
    """What all calls took, also those that broke off; None when no model was ever asked.

    It is the truth about a run in which an outage came between the calls and a node's result.
    """
    if not trajectory.is_file():
        return None
    found = (event.get("usage") for event in _events(trajectory, "reply", "broken"))
    usages = (usage_from(usage) for usage in found if isinstance(usage, Mapping))
    return sum(usages, Usage())


def _events(trajectory: Path, *kinds: str) -> Iterator[Mapping[str, object]]:
    if trajectory.is_file():
        yield from (event for event in read_trajectory(trajectory) if event.get("kind") in kinds)


def _call(event: Mapping[str, object]) -> ModelCall:
    usage = event["usage"]
    tokens = usage if isinstance(usage, Mapping) else {}
    end_ns = int(datetime.fromisoformat(str(event["time"])).timestamp() * 1e9)
    took_ns = int(str(event.get("latency_ms") or 0)) * 1_000_000
    model = str(event.get("model") or "")
    return ModelCall(
        model=model,
        start_ns=end_ns - took_ns,
        end_ns=end_ns,
        attributes={
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": int(tokens.get("input", 0)),
            "gen_ai.usage.output_tokens": int(tokens.get("output", 0)),
            "harness.node": str(event.get("node") or ""),
            "harness.cost_usd": float(tokens.get("cost_usd", 0.0)),
        },
    )
