"""Stores of any size, filled in bulk: texts of real words, vectors of the local model."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from uuid import uuid4

import numpy as np
from sqlalchemy import insert

from memory.content import content_json, embedding_text, slugify
from memory.database import write_transaction
from memory.indexing import word_impacts
from memory.playbooks.library import Library
from memory.playbooks.write import playbook_columns
from memory.tables import entries, entry_versions, entry_words, outdated_entries
from memory.tables import entry_vectors as vector_table
from memory.types import PlaybookContent, PlaybookStep
from providers import minilm

VERBS = [
    "deploy",
    "rotate",
    "migrate",
    "restore",
    "upgrade",
    "audit",
    "rename",
    "profile",
    "mirror",
    "archive",
    "encrypt",
    "seed",
]
THINGS = [
    "database",
    "certificate",
    "dashboard",
    "container",
    "queue",
    "secret",
    "invoice",
    "cluster",
    "calendar",
    "mailbox",
    "pipeline",
    "changelog",
    "firewall",
    "spreadsheet",
    "webhook",
    "cache",
    "survey",
    "licence",
    "backup",
    "translation",
]
PLACES = [
    "staging",
    "production",
    "Kubernetes",
    "Postgres",
    "GitHub",
    "Slack",
    "Salesforce",
    "Terraform",
    "Jenkins",
    "Grafana",
    "Stripe",
    "Android",
    "Django",
    "Kafka",
    "Redis",
    "Windows",
    "Figma",
    "Zendesk",
    "Shopify",
    "Airflow",
]
WHEN = (
    "after an outage", "before a release", "when a customer complains", "every month",
    "when the disk is full", "for a new colleague", "during an audit", "after a merge",
    "when tests are flaky", "on a public holiday",
)  # fmt: skip

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

REAL = 500
"""Texts that the model really embeds; all further vectors lie around one of these."""

APART = 0.4
"""How far around, as a length."""


def contents(count: int, seed: int = 0) -> list[PlaybookContent]:
    """That many different playbooks; a number makes each one's words its own."""
    lot = random.Random(seed)  # noqa: S311 - the same lots each time, no secret
    return [_content(number, lot) for number in range(count)]


def vectors(made: Sequence[PlaybookContent], seed: int = 0) -> list[Floats]:
    """A unit vector for each."""
    real = _embedded(tuple(text(content) for content in made[:REAL]))
    noise = np.random.default_rng(seed)
    step = np.float32(APART / np.sqrt(minilm.DIMENSIONS))
    rest = [
        real[number % len(real)] + step * noise.standard_normal(minilm.DIMENSIONS, dtype=np.float32)
        for number in range(len(real), len(made))
    ]
    return [*real, *(vector / np.linalg.norm(vector) for vector in rest)]


@cache
def _embedded(texts: tuple[str, ...]) -> Floats:
    """Once: several benchmarks fill their stores with the same."""
    return np.array(minilm.embed(texts), dtype=np.float32)


def fill(library: Library, made: Sequence[PlaybookContent], made_vectors: Sequence[Floats]) -> None:
    """Write them all, then let the index learn of them."""
    at = datetime.now(UTC)
    model = library.index.model or ""
    for start in range(0, len(made), 2_000):
        part = list(enumerate(made[start : start + 2_000], start + 1))
        with write_transaction(library.engine) as connection:
            connection.execute(insert(entries), [_row(key, c, at) for key, c in part])
            history = [
                {
                    "entry_key": k,
                    "version": 1,
                    "at": at,
                    "source": "bench",
                    "content": content_json(c),
                }
                for k, c in part
            ]
            connection.execute(insert(entry_versions), history)
            spoken = [
                {"word": word, "entry_key": key, "impact": impact}
                for key, c in part
                for word, impact in word_impacts(c).items()
            ]
            connection.execute(insert(entry_words), spoken)
            kept = [
                {
                    "entry_key": key,
                    "model": model,
                    "dimensions": len(made_vectors[key - 1]),
                    "vector": made_vectors[key - 1].tobytes(),
                }
                for key, _ in part
            ]
            connection.execute(insert(vector_table), kept)
            connection.execute(insert(outdated_entries), [{"entry_key": key} for key, _ in part])
    library.index.refresh()


def folder_size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _content(number: int, lot: random.Random) -> PlaybookContent:
    verb, thing, place = lot.choice(VERBS), lot.choice(THINGS), lot.choice(PLACES)
    other, moment = lot.choice(THINGS), lot.choice(WHEN)
    return PlaybookContent(
        title=f"{verb.capitalize()} the {place} {thing} {number}",
        use_case=f"Someone must {verb} a {thing} of {place} {moment}, with the {other} in order",
        process=f"Look at the {thing}. Tell the owner of {place}. {verb.capitalize()} it slowly.",
        steps=tuple(
            PlaybookStep(order=n, action=f"{lot.choice(VERBS)} the {lot.choice(THINGS)}")
            for n in (1, 2, 3)
        ),
        category=lot.choice(PLACES),
    )


def text(content: PlaybookContent) -> str:
    return embedding_text(content.title, content.use_case)


def _row(key: int, content: PlaybookContent, at: datetime) -> dict[str, object]:
    lot = random.Random(key)  # noqa: S311 - the same lots each time, no secret
    return {
        **playbook_columns(content),
        "key": key,
        "kind": "playbook",
        "id": str(uuid4()),
        "slug": f"{slugify(content.title)}-{key}",
        "version": 1,
        "successes": lot.randrange(6),
        "partials": 0,
        "failures": lot.randrange(4),
        "source": "bench",
        "created_at": at,
        "updated_at": at,
        "last_used_at": None,
    }
