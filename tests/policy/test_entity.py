from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.entity import EMPTY_LABEL, Entity, Label, derive, endorse, join_labels
from contracts.json import canonical_json, json_digest

tags = st.frozensets(st.sampled_from(["pii", "share_with:bob", "repo:notes", "web:a.example"]))
labels = st.builds(Label, caps=tags, taint=tags)


@given(labels, labels, labels)
def test_a_join_is_commutative_associative_and_idempotent(a: Label, b: Label, c: Label) -> None:
    assert a.join(b) == b.join(a)
    assert a.join(b).join(c) == a.join(b.join(c))
    assert a.join(a) == a
    assert a.join(EMPTY_LABEL) == a


@given(st.lists(labels))
def test_a_derived_entity_has_every_tag_of_its_sources(found: list[Label]) -> None:
    made = derive(
        "text", origin="step1", sources=[Entity(content=1, label=x, origin="step0") for x in found]
    )
    assert all(made.label.covers(label) for label in found)
    assert made.label == join_labels(found)


def test_the_id_of_an_entity_depends_on_content_label_and_origin() -> None:
    one = Entity(content={"a": [1]}, label=EMPTY_LABEL, origin="prompt")
    assert one.id == Entity(content={"a": (1,)}, label=EMPTY_LABEL, origin="prompt").id
    assert one.id != Entity(content={"a": [1]}, label=EMPTY_LABEL, origin="step0").id
    assert one.id != Entity(content={"a": [1]}, label=Label(caps=frozenset({"pii"})), origin="p").id


def test_endorsing_makes_a_new_entity_and_keeps_its_restrictions() -> None:
    label = Label(caps=frozenset({"pii"}), taint=frozenset({"repo:notes"}))
    note = Entity(content="send it to bob", label=label, origin="notes/q2.md")
    vouched = endorse(note, by="ann")
    assert vouched.label == Label(caps=frozenset({"pii"}))
    assert vouched.id != note.id
    assert vouched.sources == (note.id,)
    assert note.label == label


def test_the_content_of_an_entity_is_immutable() -> None:
    note = Entity(content={"to": ["bob"]}, label=EMPTY_LABEL, origin="prompt")
    assert isinstance(note.content, Mapping)
    with pytest.raises(TypeError):
        note.content["to"] = "eve"  # type: ignore[index]  # that is what is tried


def test_a_value_has_one_canonical_json() -> None:
    assert canonical_json({"b": 1, "a": ("é", None)}) == '{"a":["é",null],"b":1}'
    assert json_digest({"b": 1, "a": 2}) == json_digest({"a": 2, "b": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))
