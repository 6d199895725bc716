"""Model calls of Harness itself, through the gateway: planner, curator, reflection."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from threading import Lock

from contracts.chat import ChatRequest, Complete, Reply
from contracts.errors import BudgetExceeded
from contracts.model_access import (
    BUDGET_EXCEEDED,
    INTERNAL_AGENT,
    ModelAccess,
    OpenModelAccess,
    TokenSpec,
)
from flows.config.settings import Settings
from flows.services.gateway import open_gateway_run


@contextmanager
def complete_through_gateway(
    settings: Settings,
    *,
    purpose: str,
    budget_usd: float | None = None,
    trajectory: Path | None = None,
) -> Iterator[Complete]:
    """Give a `Complete` that calls models through the gateway, until the block ends.

        with complete_through_gateway(settings, purpose="plan", budget_usd=0.5) as complete:
            reply = complete(ChatRequest(model=settings.model, messages=[…]))

    Any model may be called; scripted ones keep their position within the block. The calls are
    recorded in `trajectory` under the name `purpose`, such as "plan" or "curate"; without a
    trajectory, in a file of their own in the folder `calls` of the home. The first call starts
    the gateway. All calls together may spend `budget_usd`; the last reply may exceed it. The
    function is safe for threads.

    Raises (when called):
        BudgetExceeded: a `ModelUnavailable`; the message says what was spent.
        ModelUnavailable: the gateway or the model does not answer.
        OptionInvalid: the file of a scripted model is not a script.
    """
    run_id = f"{purpose}-{token_hex(4)}"
    path = trajectory or _own_file(settings, run_id)
    with ExitStack() as stack:
        gates: dict[str, ModelAccess] = {}
        runs: list[OpenModelAccess] = []
        opening = Lock()

        def gate(model: str) -> ModelAccess:
            with opening:
                if not runs:
                    opened = open_gateway_run(settings, run_id, path, budget_usd=budget_usd)
                    runs.append(stack.enter_context(opened).open_gate)
                if model not in gates:
                    terms = TokenSpec(node=purpose, agent=INTERNAL_AGENT, model=model)
                    gates[model] = stack.enter_context(runs[0](terms))
                return gates[model]

        def complete(request: ChatRequest) -> Reply:
            reply = gate(request.model).complete(request)
            if reply.stop_reason == BUDGET_EXCEEDED:
                raise BudgetExceeded(reply.message.content)
            return reply

        yield complete


def _own_file(settings: Settings, run_id: str) -> Path:
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return settings.home / "calls" / f"{now}-{run_id}.jsonl"
