"""Random plans over a few operations, and runs of them that note what was done and decided."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated

from contracts.entity import Entity, Label
from contracts.json import Json, canonical_json, json_digest
from policy.authority import Authority
from policy.log.events import Draft
from policy.plan.executor import PlanRun
from policy.plan.plan_log import PlanLog
from policy.plan.registry import Registry, operation
from policy.types import Plan, PlanStep, Ref

CLEAN, WEB = Label(), Label(taint=frozenset({"web:x.example"}))
PII = Label(caps=frozenset({"pii"}))
BOTH = PII.join(WEB)
Done = list[tuple[str, str]]


@dataclass
class Told:
    """What a run did: operations with their steering arguments; decisions; all entities."""

    done: Done = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    run: PlanRun | None = None

    @property
    def decisions(self) -> list[tuple[Json, ...]]:
        """Each once in a row: a `foreach` decides the same about each of its items."""
        kept = ("step", "verdict", "rule", "argument")
        bodies = [draft.body for draft in self.drafts if draft.kind == "decision"]
        return [key for key, _ in groupby(tuple(b.get(k) for k in kept) for b in bodies)]


_DONE: Done = []
"""What the run that goes on has done."""


@operation(effect="read", requires=["READ"])
def look(at: Annotated[object, "content"], what: Annotated[object, "query"] = None) -> Json:
    """Look."""
    return shaped(lambda: json_digest(f"{at}{what}")[:6])


@operation(effect="read", requires=["READ"], label_of=lambda _arguments, _result: WEB)
def browse(url: Annotated[object, "authority"]) -> Json:
    """Browse."""
    _DONE.append(("browse", canonical_json(f"{url}")))
    return shaped(lambda: json_digest(f"{url}")[:6])


@operation(effect="write", requires=["WRITE"], place="shelf")
def put(where: Annotated[object, "authority"], what: Annotated[object, "content"]) -> Json:
    """Put."""
    _DONE.append(("put", f"{where}"))
    return shaped(lambda: json_digest(f"{where}")[:6])


@operation(effect="read", requires=["READ"], place="shelf")
def take(what: Annotated[object, "query"] = None) -> Json:
    """Take."""
    return shaped(lambda: json_digest(f"{what}")[:6])


@operation(effect="egress", requires=["SEND"])
def send(to: Annotated[object, "recipient"], text: Annotated[object, "content"]) -> Json:
    """Send."""
    _DONE.append(("send", f"{to}"))
    return shaped(lambda: "sent")


_REGISTRY = Registry((look, browse, put, take, send))
"""Each gives something that depends on all it was given, in the shape of the inputs."""


def shaped(leaf: Callable[[], Json]) -> Json:
    """The shape that every value here has, whatever its leaves are."""
    return {"a": leaf(), "b": [leaf(), leaf()], "go": leaf()}


def random_plan(drawn: random.Random) -> Plan:
    steps = tuple(_step(drawn, index) for index in range(drawn.randint(2, 7)))
    return Plan(steps=steps, prompt="p")


def run(
    plan: Plan,
    inputs: dict[str, Entity],
    grants: frozenset[str],
    named: frozenset[str] = frozenset(),
) -> Told:
    """Run all steps in order; nobody approves anything. `named` is what the prompt names."""
    told = Told()
    _DONE.clear()
    authority = Authority(
        grants=grants,
        principals={"bob": frozenset({"bob"})},
        tags=frozenset({"pii"}),
        named=named,
    )
    told.run = PlanRun(
        plan,
        _REGISTRY,
        authority,
        values=inputs,
        log=PlanLog("r", told.drafts.append),
    )
    for index in range(len(plan.steps)):
        told.run.run_step(index)
    told.done.extend(_DONE)
    return told


def _step(drawn: random.Random, index: int) -> PlanStep:
    name = drawn.choice(["look", "browse", "put", "take", "send", "send"])
    params = {
        "look": ["at", "what"],
        "browse": ["url"],
        "put": ["where", "what"],
        "take": ["what"],
        "send": ["to", "text"],
    }[name]
    caps = {"look": "READ", "browse": "READ", "put": "WRITE", "take": "READ", "send": "SEND"}
    foreach = _ref(drawn, index, ("b",)) if drawn.random() < 0.15 else None
    args: dict[str, Json] = {one: _value(drawn, index, foreach is not None) for one in params}
    return PlanStep(
        op=name,
        args=args,
        tool_caps=frozenset({caps[name]}),
        data_caps=frozenset({"pii"}) if drawn.random() < 0.5 else frozenset(),
        deps=tuple(range(index)),
        when=_ref(drawn, index, ("go",)) if drawn.random() < 0.15 else None,
        foreach=foreach,
    )


def _value(drawn: random.Random, index: int, each: bool) -> Json:
    kind = drawn.random()
    if kind < 0.45:
        return drawn.choice(["bob", "eve", "notes/q2.md"])
    if each and kind < 0.6:
        return {"$ref": "item"}
    ref: Json = {"$ref": str(_ref(drawn, index, drawn.choice([(), ("a",), ("b", "1")])))}
    return [ref, "x"] if kind > 0.9 else ref


def _ref(drawn: random.Random, index: int, path: tuple[str, ...]) -> Ref:
    inputs = ["input.clean", "input.web", "input.pii", "input.both"]
    return Ref(drawn.choice([*inputs, *(f"step{i}" for i in range(index))]), path)
