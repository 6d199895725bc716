"""The laws of merging, on generated histories of several machines."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.entity import Entity, Label, endorse
from flows.views.export import export_lines, read_export
from policy.log.data_flow import (
    DataFlow,
    data_flow,
    entities_derived_from,
    entities_losing_tags,
    taint_path,
    was_approved_before,
    within_steps,
)
from policy.log.events import Draft, History, Kind, joined_clock, merge, place_drafts
from policy.log.verify import CausalityCheck

MACHINES = ("one", "two", "three")
STATUSES = ("pending", "approved", "denied", "revoked", "used", "expired")
KINDS: tuple[Kind, ...] = ("node", "source", "approval", "endorsement", "decision")


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


@st.composite
def machines(draw: st.DrawFn) -> tuple[History, ...]:
    """Return the history of each machine after some appends and pulls."""
    known = {name: History() for name in MACHINES}
    for number in range(draw(st.integers(1, 12))):
        who = draw(st.sampled_from(MACHINES))
        if draw(st.integers(0, 3)) == 0:
            known[who] = merge(known[who], known[draw(st.sampled_from(MACHINES))])
        else:
            known[who] = with_events(known[who], who, draw(drafts(known[who], number)))
    return tuple(known.values())


@st.composite
def drafts(draw: st.DrawFn, known: History, number: int) -> Draft:
    there = sorted(known.entities)
    uses = draw(st.lists(st.sampled_from(there), max_size=3)) if there else []
    taint = draw(st.frozensets(st.sampled_from(("repo", "web")), max_size=2))
    made = Entity(content=number, label=Label(taint=taint), origin="test")
    repeats, endorses = draw(st.booleans()), draw(st.booleans())
    again = [known.entities[draw(st.sampled_from(there))]] if there and repeats else []
    clean = [endorse(known.entities[uses[0]], by="me")] if uses and endorses else []
    return Draft(
        kind=draw(st.sampled_from(KINDS)),
        run_id="run",
        body={"approval": "a", "status": draw(st.sampled_from(STATUSES))},
        consumes=tuple(uses),
        produces=(made, *again, *clean),
    )


def with_events(known: History, replica: str, *new: Draft) -> History:
    """Return the history with these events appended."""
    placed = place_drafts(new, tuple(sorted(known.heads)), known.clock, replica, now)
    made = {entity.id: entity for draft in new for entity in draft.produces}
    return merge(known, History(events={event.id: event for event in placed}, entities=made))


@given(machines())
def test_merging_is_commutative_associative_and_idempotent(known: tuple[History, ...]) -> None:
    one, two, three = known
    assert merge(one, two) == merge(two, one)
    assert merge(merge(one, two), three) == merge(one, merge(two, three))
    assert merge(one, one) == one
    assert merge(one, merge(one, two)) == merge(one, two)


@given(machines())
def test_the_clock_of_a_merge_is_the_pointwise_maximum(known: tuple[History, ...]) -> None:
    for one, two in combinations(known, 2):
        assert merge(one, two).clock == joined_clock([one.clock, two.clock])


@given(machines())
def test_the_order_keeps_causes_before_effects_and_is_the_same_everywhere(
    known: tuple[History, ...],
) -> None:
    orders = {merge(merge(one, two), three).in_order() for one, two, three in permutations(known)}
    assert len(orders) == 1
    seen: set[str] = set()
    for event in orders.pop():
        assert seen.issuperset(event.heads)
        seen.add(event.id)


@given(machines())
def test_merged_histories_pass_the_causality_check(known: tuple[History, ...]) -> None:
    everything = merge(merge(known[0], known[1]), known[2])
    causes = CausalityCheck()
    causes.entities.update(everything.entities)
    for event in everything.in_order():
        causes.check_event(event.id, event.line)
    assert causes.problems() == []
    assert causes.heads == everything.heads


@given(machines())
def test_an_export_is_read_back_unchanged(known: tuple[History, ...]) -> None:
    for one in known:
        assert read_export(export_lines(one)) == one


@settings(max_examples=200)
@given(machines())
def test_labels_never_shrink(known: tuple[History, ...]) -> None:
    """Except for an endorsement that arrives after its entity, which the log refuses."""
    for one, two in permutations(known, 2):
        before, after = data_flow(one), data_flow(merge(one, two))
        assert entities_losing_tags(before, after) == ()


@given(machines())
def test_a_label_covers_the_labels_of_all_sources(known: tuple[History, ...]) -> None:
    flow = data_flow(merge(merge(known[0], known[1]), known[2]))
    for name in flow.history.entities:
        for other in made_from(flow, name):
            assert name in entities_derived_from(flow, other)
            assert flow.label(name).caps >= flow.label(other).caps
        for tag in flow.label(name).taint:
            assert taint_path(flow, name, tag)[-1].entity == name


def test_a_concurrent_revocation_wins_over_an_approval() -> None:
    requested = with_events(History(), "one", with_status("pending"))
    approved = with_events(requested, "one", with_status("approved"))
    revoked = with_events(requested, "two", with_status("revoked"))
    for merged in (merge(approved, revoked), merge(revoked, approved)):
        assert not is_valid_next(merged)
    assert is_valid_next(approved)
    assert not is_valid_next(requested)


def test_an_unknown_status_revokes() -> None:
    known = with_events(History(), "one", with_status("approved"), with_status("sure, why not"))
    assert not is_valid_next(known)


def is_valid_next(known: History) -> bool:
    """Return True if the approval is valid for the next event."""
    after = with_events(known, "one", Draft(kind="endorsement", run_id="run"))
    return was_approved_before(after.in_order(), "a", after.in_order()[-1])


def made_from(flow: DataFlow, entity: str) -> set[str]:
    """Return every entity that this one was made from, over any number of steps."""

    def inputs(here: str) -> Iterable[str]:
        made = flow.history.entities.get(here)
        yield from made.sources if made else ()
        for event in flow.made_by.get(here, ()):
            yield from event.consumes

    return within_steps(entity, inputs, steps=None).keys() - {entity}


def with_status(status: str) -> Draft:
    return Draft(kind="approval", run_id="run", body={"approval": "a", "status": status})
