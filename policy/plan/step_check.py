"""C1 to C6: whether a step may run now, on the labels that its values have now.

C1  it uses exactly the tools that its operation requires, and the user granted them
C2  every reference leads to a labelled entity, with no tag that the step did not declare
C3  the recipients may have data with every tag that the step declared
C4  no untrusted origin has a say in what happens or who gets it
C5  it is the step of the plan that was agreed on; a model wrote no more than content
C6  what decides whether it runs counts as used: no untrusted origin decides about an effect

What no rule allows is denied. Pure: the same labels give the same decision, whatever the
bytes of untrusted entities are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from contracts.entity import Entity
from contracts.json import Json, json_digest
from contracts.tool import Allowed, Decision, Denied
from policy.authority import addresses_in
from policy.plan.references import ReferenceMissing
from policy.plan.resolve import PolicyContext, ResolvedCall, StepCall, differs_from_plan, resolve
from policy.provenance import provenance

RULES_VERSION = "1"
"""Raised whenever the rules here decide anything else than before."""

_STEERING = ("authority", "recipient")


def check_step(call: StepCall, world: PolicyContext) -> Decision:
    """Decide about one step at the moment when it would run; every broken rule is told."""
    resolved = resolve(call, world)
    if isinstance(resolved, Denied):
        return resolved
    denials = tuple(dict.fromkeys(_denials(call, resolved, world)))
    return replace(denials[0], others=denials[1:]) if denials else Allowed()


def action_digest(resolved: ResolvedCall, version: str) -> str:
    """Names exactly this action: the step, its arguments, their labels, the policy's version.

    Raises:
        Missing: an argument cannot be filled.
    """
    labels: dict[str, Json] = {
        entity.id: [sorted(entity.label.caps), sorted(entity.label.taint)]
        for entity in resolved.used
    }
    return json_digest(
        {
            "step": resolved.step.as_json(),
            "arguments": resolved.arguments,
            "labels": labels,
            "policy": version,
        }
    )


def policy_version(world: PolicyContext) -> str:
    """Names the rules, the registry and the authority that decisions are made by."""
    made_of: Json = {"registry": world.registry.as_json(), "authority": world.authority.as_json()}
    return f"{RULES_VERSION}-{json_digest(made_of)[:16]}"


def _denials(call: StepCall, resolved: ResolvedCall, world: PolicyContext) -> Iterator[Denied]:
    yield from _c1(resolved, world)
    yield from _c5(call, resolved, world)
    yield from _c2(resolved, world)
    yield from _c6(resolved, world)
    yield from _c4(resolved, world)
    yield from _c3(resolved, world)


def _c1(resolved: ResolvedCall, world: PolicyContext) -> Iterator[Denied]:
    step, requires = resolved.step, resolved.operation.requires
    if step.tool_caps != requires:
        yield Denied(
            reason=f"{step.op} requires {_list(requires)}, the step says {_list(step.tool_caps)}",
            rule="C1",
            argument="/tool_caps",
            tags=step.tool_caps ^ requires,
        )
    missing = requires - world.authority.grants
    if missing:
        yield Denied(
            reason=f"{step.op} needs {_list(missing)}, which nobody granted",
            rule="C1",
            argument="/tool_caps",
            tags=missing,
        )


def _c2(resolved: ResolvedCall, world: PolicyContext) -> Iterator[Denied]:
    for name, entity in _parts(resolved):
        extra = entity.label.caps - resolved.step.data_caps
        if extra:
            reason = f"{entity.origin} carries {_list(extra)}, which the step does not declare"
            yield _denied("C2", name, reason, extra, entity, world)


def _c3(resolved: ResolvedCall, world: PolicyContext) -> Iterator[Denied]:
    operation, authority = resolved.operation, world.authority
    if operation.effect == "read" or (operation.effect == "write" and operation.place):
        return
    try:
        recipients = _recipients(resolved)
    except ReferenceMissing as error:
        yield Denied(reason=f"no recipient: nothing at {error}", rule="C2", argument="/args")
        return
    declared = resolved.step.data_caps
    kept = frozenset(cap for cap in declared if not authority.may_release(cap, recipients))
    if kept:
        whom = _list(recipients) or "nobody in particular"
        reason = f"data with {_list(kept)} may not go to {whom}"
        source = next((e for _, e in _parts(resolved) if e.label.caps & kept), None)
        yield _denied("C3", "data_caps", reason, kept, source, world)


def _c4(resolved: ResolvedCall, world: PolicyContext) -> Iterator[Denied]:
    for name, role in sorted(resolved.operation.roles.items()):
        entities = resolved.argument_entities.get(name, ()) if role in _STEERING else ()
        yield from _tainted(entities, name, f"decide /{name} of {resolved.step.op}", "C4", world)


def _c5(call: StepCall, resolved: ResolvedCall, world: PolicyContext) -> Iterator[Denied]:
    if call.plan.id != world.plan:
        yield Denied(reason="this is not the plan that was agreed on", rule="C5", argument="/")
    if call.proposed is None:
        return
    source = next((entity for entity in resolved.used if entity.label.taint), None)
    tags = source.label.taint if source else frozenset()
    writer = f"a model that saw {_list(tags)}" if tags else "a model"
    for name in sorted({*call.proposed, *resolved.step.args}):
        role = resolved.operation.roles.get(name)
        composed = role == "content" and resolved.step.compose is not None
        if not composed and differs_from_plan(call.proposed.get(name), resolved, name):
            reason = f"/{name} is not what the plan says: {writer} wrote it"
            yield _denied("C5", name, reason, tags, source, world)


def _c6(resolved: ResolvedCall, world: PolicyContext) -> Iterator[Denied]:
    operation = resolved.operation
    if operation.effect == "read" and not set(_STEERING) & set(operation.roles.values()):
        return
    for name, entities in resolved.control_entities.items():
        yield from _tainted(entities, name, f"decide whether {operation.name} runs", "C6", world)


def _tainted(
    entities: Iterable[Entity], name: str, would: str, rule: str, world: PolicyContext
) -> Iterator[Denied]:
    for entity in entities:
        taint = entity.label.taint
        if taint:
            yield _denied(rule, name, f"{_list(taint)} would {would}", taint, entity, world)


def _denied(
    rule: str,
    name: str,
    reason: str,
    tags: frozenset[str],
    entity: Entity | None,
    world: PolicyContext,
) -> Denied:
    way = provenance(entity, tags, world.entities) if entity else ()
    return Denied(reason=reason, rule=rule, argument=f"/{name}", tags=tags, provenance=way)


def _recipients(resolved: ResolvedCall) -> frozenset[str]:
    roles = resolved.operation.roles.items()
    named = (resolved.argument(name) for name, role in roles if role == "recipient")
    return frozenset(chain.from_iterable(map(addresses_in, named)))


def _parts(resolved: ResolvedCall) -> Iterator[tuple[str, Entity]]:
    for name, entities in (*resolved.argument_entities.items(), *resolved.control_entities.items()):
        for entity in entities:
            yield name, entity
    if resolved.place is not None:
        yield resolved.operation.place or "", resolved.place


def _list(tags: Iterable[str]) -> str:
    return ", ".join(sorted(tags))
