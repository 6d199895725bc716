"""Model calls in a trajectory: time, node, tokens."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from contracts.chat import Usage
from providers.openai_messages import usage_from
from providers.trajectory import read_trajectory


class ModelCall(NamedTuple):
    """One answered call, without its text."""

    model: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int | float]


def model_calls(trajectory: Path) -> Iterator[ModelCall]:
    """Yield the calls in the order of their answers. Lines that cannot be read are left out."""
    for event in _events(trajectory, "reply"):
        with suppress(ValueError, KeyError, TypeError):
            yield _call(event)


def total_usage(trajectory: Path) -> Usage | None:
    """Return the usage of all calls, also interrupted ones; None if no model was called.

    This includes calls whose node has no result because an outage came in between.
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
