"""Rules C1 to C6: whether a step may run now, given the present labels of its values.

C1  the step names exactly the capabilities that its operation requires, and the user granted them
C2  every reference leads to a labelled entity without tags that the step does not declare
C3  the recipients may have data with every tag that the step declares
C4  no untrusted origin influences the action or its recipients, unless the user's own prompt
    names the very value
C5  the step is part of the plan that the user agreed to; a model wrote only content that the
    plan left open
C6  values that decide whether it runs count as used: no untrusted origin decides about an effect

Anything without a rule is denied. The decision depends on labels, and not on the content of
untrusted entities, except that C4 compares a steering value with what the prompt names, and C3
compares recipients with the readers of an item.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from contracts.entity import Entity
from contracts.json import Json, json_digest
from contracts.tool import Allowed, Decision, Denied
from policy.authority import Authority, addresses_in, normalized_address
from policy.plan.named import is_named
from policy.plan.references import ReferenceMissing
from policy.plan.resolve import (
    PolicyContext,
    ResolvedCall,
    StepCall,
    differs_from_plan,
    resolve,
)
from policy.types import PlanStep

RULES_VERSION = "2"
"""Raise it whenever these rules make a different decision than before."""

_STEERING_ROLES = ("authority", "recipient")

READERS = "readers:"
"""`readers:ann@example.org,bob@example.org` on an item: only these addresses may receive it."""


def check_step(call: StepCall, context: PolicyContext) -> Decision:
    """Decide about a call right before it runs; a denial lists every broken rule."""
    resolved = resolve(call, context)
    if isinstance(resolved, Denied):
        return resolved
    denials = tuple(
        dict.fromkeys(
            chain(
                _c1(resolved, context),
                _c5(call, resolved, context),
                _c2(resolved, context),
                _c6(resolved, context),
                _c4(resolved, context),
                _c3(resolved, context),
            )
        )
    )
    return replace(denials[0], others=denials[1:]) if denials else Allowed()


def action_digest(resolved: ResolvedCall, version: str) -> str:
    """Return a digest of the step, its arguments, their labels and the policy's version.

    Raises:
        ReferenceMissing: an argument has no value.
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


def policy_version(context: PolicyContext) -> str:
    """Return a version that changes with the rules, the registry and the authority."""
    parts: Json = {
        "registry": context.registry.as_json(),
        "authority": context.authority.as_json(),
    }
    return f"{RULES_VERSION}-{json_digest(parts)[:16]}"


def provenance(
    entity: Entity, tags: frozenset[str], entities: Mapping[str, Entity]
) -> tuple[str, ...]:
    """Return the origins on the path of one of these tags to the entity, the first one first."""
    path, here, seen = [entity.origin], entity, {entity.id}
    while True:
        sources = (entities[source] for source in here.sources if source in entities)
        tagged = (e for e in sources if e.id not in seen and (e.label.caps | e.label.taint) & tags)
        before = next(tagged, None)
        if before is None:
            return tuple(reversed(path))
        path.append(before.origin)
        seen.add(before.id)
        here = before


def _c1(resolved: ResolvedCall, context: PolicyContext) -> Iterator[Denied]:
    step, requires = resolved.step, resolved.operation.requires
    if step.tool_caps != requires:
        yield Denied(
            reason=f"{step.op} requires {_list(requires)}, the step says {_list(step.tool_caps)}",
            rule="C1",
            argument="/tool_caps",
            tags=step.tool_caps ^ requires,
        )
    missing = requires - context.authority.grants
    if missing:
        yield Denied(
            reason=f"{step.op} needs {_list(missing)}, which is not granted",
            rule="C1",
            argument="/tool_caps",
            tags=missing,
        )


def _c2(resolved: ResolvedCall, context: PolicyContext) -> Iterator[Denied]:
    for name, entity in _entities(resolved):
        extra = undeclared_caps(entity.label.caps, resolved.step)
        if extra:
            reason = f"{entity.origin} carries {_list(extra)}, which the step does not declare"
            yield _denied("C2", name, reason, extra, entity, context)


def _c3(resolved: ResolvedCall, context: PolicyContext) -> Iterator[Denied]:
    operation, authority = resolved.operation, context.authority
    # Data that stays in a labelled place does not leave: the place gets its tags.
    if operation.effect == "read" or (operation.effect == "write" and operation.place):
        return
    try:
        recipients = _recipients(resolved)
    except ReferenceMissing as error:
        reason = f"the recipient has no value at {error}"
        yield Denied(reason=reason, rule="C2", argument="/args")
        return
    # By declared tags, not present ones: the decision must not depend on which data arrived. Only
    # the readers of an item are known no earlier.
    present = frozenset().union(*(entity.label.caps for _, entity in _entities(resolved)))
    caps = resolved.step.data_caps | {cap for cap in present if cap.startswith(READERS)}
    blocked = frozenset(cap for cap in caps if not _may_release(cap, recipients, authority))
    if blocked:
        to = _list(recipients) or "an unknown recipient"
        reason = f"data with {_list(blocked)} may not go to {to}"
        source = next((e for _, e in _entities(resolved) if e.label.caps & blocked), None)
        yield _denied("C3", "data_caps", reason, blocked, source, context)


def _c4(resolved: ResolvedCall, context: PolicyContext) -> Iterator[Denied]:
    for name, role in sorted(resolved.operation.roles.items()):
        if role in _STEERING_ROLES and not _is_users_word(resolved, name, context):
            entities = resolved.argument_entities.get(name, ())
            would = f"decide /{name} of {resolved.step.op}"
            yield from _tainted(entities, name, would, "C4", context)


def _c5(call: StepCall, resolved: ResolvedCall, context: PolicyContext) -> Iterator[Denied]:
    if call.plan.id != context.plan:
        reason = "the step is not part of the plan that the user agreed to"
        yield Denied(reason=reason, rule="C5", argument="/")
    if call.proposed is None:
        return
    source = next((entity for entity in resolved.used if entity.label.taint), None)
    tags = source.label.taint if source else frozenset()
    writer = f"a model that saw {_list(tags)}" if tags else "a model"
    composed = _composed_parameters(resolved, context)
    for name in sorted({*call.proposed, *resolved.step.args}):
        if name not in composed and differs_from_plan(call.proposed.get(name), resolved, name):
            reason = f"/{name} differs from the plan: {writer} wrote it"
            yield _denied("C5", name, reason, tags, source, context)


def _c6(resolved: ResolvedCall, context: PolicyContext) -> Iterator[Denied]:
    operation = resolved.operation
    if operation.effect == "read" and not set(_STEERING_ROLES) & set(operation.roles.values()):
        return
    for name, entities in resolved.control_entities.items():
        would = f"decide whether {operation.name} runs"
        yield from _tainted(entities, name, would, "C6", context)


def undeclared_caps(caps: frozenset[str], step: PlanStep) -> frozenset[str]:
    """Return the tags that a step does not declare; no plan can know the readers of an item."""
    return frozenset(cap for cap in caps - step.data_caps if not cap.startswith(READERS))


def _may_release(cap: str, recipients: frozenset[str], authority: Authority) -> bool:
    if cap.startswith(READERS) and recipients:
        return recipients <= {normalized_address(one) for one in cap[len(READERS) :].split(",")}
    return authority.may_release(cap, recipients)


def _is_users_word(resolved: ResolvedCall, name: str, context: PolicyContext) -> bool:
    try:
        return is_named(resolved.argument(name), context.authority.named)
    except ReferenceMissing:
        return False


def _composed_parameters(resolved: ResolvedCall, context: PolicyContext) -> frozenset[str]:
    """Return the parameters that a model may write."""
    operation, step = resolved.operation, resolved.step
    if context.rules == "1" and step.compose is not None:
        return frozenset(name for name, role in operation.roles.items() if role == "content")
    return operation.open_content(step)


def _tainted(
    entities: Iterable[Entity], name: str, would: str, rule: str, context: PolicyContext
) -> Iterator[Denied]:
    for entity in entities:
        taint = entity.label.taint
        if taint:
            reason = f"untrusted text from {_list(taint)} would {would}"
            yield _denied(rule, name, reason, taint, entity, context)


def _denied(
    rule: str,
    name: str,
    reason: str,
    tags: frozenset[str],
    entity: Entity | None,
    context: PolicyContext,
) -> Denied:
    path = provenance(entity, tags, context.entities) if entity else ()
    return Denied(reason=reason, rule=rule, argument=f"/{name}", tags=tags, provenance=path)


def _recipients(resolved: ResolvedCall) -> frozenset[str]:
    roles = resolved.operation.roles.items()
    values = (resolved.argument(name) for name, role in roles if role == "recipient")
    return frozenset(chain.from_iterable(map(addresses_in, values)))


def _entities(resolved: ResolvedCall) -> Iterator[tuple[str, Entity]]:
    found = (*resolved.argument_entities.items(), *resolved.control_entities.items())
    for name, entities in found:
        for entity in entities:
            yield name, entity
    for entity in resolved.material:
        yield "compose_from", entity
    if resolved.place is not None:
        yield resolved.operation.place or "", resolved.place


def _list(tags: Iterable[str]) -> str:
    return ", ".join(sorted(tags))
