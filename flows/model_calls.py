"""The calls of models in a trajectory: when, by which node, how many tokens."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple


class ModelCall(NamedTuple):
    """One answered call; nothing of what was said."""

    model: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int | float]


def model_calls(trajectory: Path) -> Iterator[ModelCall]:
    """The calls, in the order they were answered; a line that cannot be read is left out."""
    if not trajectory.is_file():
        return
    with trajectory.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                event = json.loads(line)
                if event["kind"] == "reply":
                    yield _call(event)
            except (ValueError, KeyError, TypeError):
                continue


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
