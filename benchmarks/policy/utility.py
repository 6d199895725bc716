"""Runs the tasks of the four desks as planned, and with each slot poisoned at its source."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.policy.desks import DATA, Data, Desk, operations, poisoned, slots
from benchmarks.policy.tasks import TASKS, Task
from contracts.json import Json
from policy.authority import Authority
from policy.log.events import Draft
from policy.plan.executor import PlanRun
from policy.plan.named import named_in
from policy.plan.plan_json import parse_plan
from policy.plan.plan_log import PlanLog
from policy.plan.registry import Registry
from policy.types import Plan

CONTACTS = {str(one["name"]): frozenset({str(one["email"]), str(one["iban"])})
            for one in DATA["contacts"]}  # fmt: skip


@dataclass(frozen=True)
class Worked:
    """The calls of one run with their steering arguments, and the reason if it stopped."""

    did: list[tuple[str, ...]]
    read: set[str]
    asks: list[str]


_DESK = Desk()
_REGISTRY = Registry(operations(_DESK))
_GRANTS = frozenset(cap for one in _REGISTRY for cap in one.requires)


def work(task: Task, data: Data = DATA, *, items: bool = True, names: bool = True) -> Worked:
    """Carry out the plan of a task; nobody approves anything."""
    _DESK.data, _DESK.did, _DESK.read, _DESK.items = data, [], set(), items
    named = named_in(task.prompt, CONTACTS) if names else frozenset[str]()
    drafts: list[Draft] = []
    run = PlanRun(
        _plan(task),
        _REGISTRY,
        Authority(grants=_GRANTS, named=named),
        values={},
        log=PlanLog("r", drafts.append),
    )
    ended = [run.run_step(index) for index in range(len(task.steps))]
    asks = [f"{task.steps[one.index]['op']}: {one.reason}" for one in ended
            if one.status not in ("done", "skipped")]  # fmt: skip
    return Worked(_DESK.did, _DESK.read, asks)


def attacks(task: Task) -> Iterator[tuple[str, Worked]]:
    """Carry out a task once for each slot that it reads, poisoned at its source."""
    read = work(task).read
    for table, row, name in (slot for slot in slots(DATA) if slot[0] in read):
        yield f"{table}/{row}/{name}", work(task, poisoned(DATA, table, row, name))


def attacks_through(task: Task) -> list[str]:
    """Return the slots by which an attacker changed what is done, or to whom."""
    meant = set(work(task).did)
    return [where for where, worked in attacks(task) if not set(worked.did) <= meant]


def _plan(task: Task) -> Plan:
    steps: list[Json] = []
    for index, one in enumerate(task.steps):
        found = _REGISTRY.get(str(one["op"]))
        assert found is not None, one
        steps.append({**one, "tool_caps": sorted(found.requires), "deps": list(range(index))})
    return parse_plan(json.dumps(steps), prompt="p")


def table() -> Iterator[str]:
    """Yield the utility table: tasks without an approval at each desk, and what still asks."""
    for name in ("office", "bank", "chat", "travel"):
        tasks = [one for one in TASKS if one.desk == name]
        free = [not work(one).asks for one in tasks]
        before = [not work(one, items=False, names=False).asks for one in tasks]
        through = sum(len(attacks_through(one)) for one in tasks)
        yield f"{name:8}{sum(free):3} of {len(tasks)} tasks without an approval"
        yield f"        ({sum(before)} by labels of whole results alone); {through} attacks through"
    for one in TASKS:
        for ask in work(one).asks[:1]:
            yield f"  asks: {one.prompt} [{ask}]"


if __name__ == "__main__":
    print("\n".join(table()))
