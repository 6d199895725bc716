"""The policy's rows: the time of a decision, and the share of writes that need nobody."""

import json
import time
from collections.abc import Callable, Iterator
from statistics import median

from benchmarks.policy.work import MAIL, WORK, carry_out, injected, operations, plan_of
from benchmarks.row import Row
from contracts.entity import EMPTY_LABEL, Entity
from policy.authority import Authority
from policy.plan.plan_json import check_plan, parse_plan
from policy.plan.registry import Registry
from policy.plan.resolve import PolicyContext, StepCall
from policy.plan.step_check import check_step

ENTITIES = 100
STEPS = 1_000


def rows() -> Iterator[Row]:
    """Well below a minute."""
    yield _step_row()
    yield _plan_row()
    yield from _work_rows()


def _step_row() -> Row:
    plan = plan_of(WORK["mail the notes"])
    registry = Registry(operations([]))
    grants = frozenset(cap for one in registry for cap in one.requires)
    held = {f"input.x{i}": Entity(content=i, label=MAIL.label, origin="x") for i in range(ENTITIES)}
    held["step0"] = Entity(content="notes", label=MAIL.label, origin="step0")
    held["place.workspace"] = Entity(content="files", label=EMPTY_LABEL, origin="repo")
    world = PolicyContext(
        registry=registry,
        authority=Authority(grants=grants),
        plan=plan.id,
        values=held,
        entities={one.id: one for one in held.values()},
    )
    call = StepCall(plan=plan, index=1)
    ours = median(_timed(lambda: check_step(call, world)) for _ in range(5_000))
    return Row(
        name=f"check_step p50, {ENTITIES} entities",
        ours=ours,
        baseline=50e-6,
        ratio=ours / 50e-6,
        target="at most 1 of 50 us",
    )


def _plan_row() -> Row:
    plan = plan_of(WORK["mail the notes"])
    first, second = (json.loads(json.dumps(one, default=dict)) for one in plan.as_json())
    chain = [first]
    for index in range(1, STEPS):
        body = {"$ref": f"step{index - 1}.result"}
        chain.append({**second, "args": {**second["args"], "body": body}, "deps": [index - 1]})
    text = json.dumps(chain)
    registry, authority = Registry(operations([])), Authority()
    long = parse_plan(text, prompt="p")
    ours = median(_timed(lambda: check_plan(long, registry, authority)) for _ in range(9))
    return Row(
        name=f"{STEPS}-step plan checked",
        ours=ours,
        baseline=0.1,
        ratio=ours / 0.1,
        target="at most 1 of 100 ms",
    )


def _work_rows() -> Iterator[Row]:
    done = [carry_out(steps) for steps in WORK.values()]
    writes, denied = sum(one.writes for one in done), sum(one.denied for one in done)
    share = (writes - denied) / writes
    yield Row(
        name="writes that need no approval",
        ours=share,
        baseline=1.0,
        ratio=share,
        target="at least 0.8",
        unit="",
        note=f"{len(WORK)} plans, {writes} writes",
    )
    turned = [
        carry_out(made).statuses[index] != "done"
        for steps in WORK.values()
        for index, _, made in injected(steps)
    ]
    stopped = sum(turned) / len(turned)
    yield Row(
        name="injected variants that are stopped",
        ours=stopped,
        baseline=1.0,
        ratio=stopped,
        target="exactly 1",
        unit="",
        note=f"{len(turned)} variants",
    )


def _timed(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began
