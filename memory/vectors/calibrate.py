"""The distance limit of an embedding model, measured when the model is first used with a store."""

from itertools import combinations

from sqlalchemy import Connection, insert

from memory.tables import embedding_models
from memory.types import Embedder
from memory.vectors.embeddings import cosine_distances, embed_texts, to_bytes

UNRELATED_SHARE = 0.1
"""Share of pairs of unrelated texts that are nearer than the limit; see `docs/why/memory.md`."""

_UNRELATED = (
    "Rotate the signing keys after one has leaked",
    "bake a loaf of rye bread",
    "Restore last night's backup of the customer database",
    "why is the login page slow since Monday?",
    "Translate the release notes into Portuguese",
    "book a train to Vienna for two adults",
    "Reduce the memory that the image resizer uses",
    "the unit tests fail only on Windows",
    "Renew the passport of a child",
    "Write an invoice for the consulting in March",
    "merge two branches that changed the same file",
    "prune an old apple tree in winter",
    "Set up single sign-on for contractors",
    "what is the melting point of copper?",
    "Measure the battery life of the headset",
    "Plot the number of visitors per week",
    "Move a mailing list to another provider",
    "teach a puppy to walk on a leash",
    "Deploy the payment service to a second region",
    "Summarise a court ruling in plain words",
)


def measure_limit(embedder: Embedder) -> float:
    """Return the cosine distance below which few unrelated texts lie.

    Raises:
        ModelUnavailable, ModelRefused.
    """
    vectors = embed_texts(embedder, _UNRELATED)
    stored = [to_bytes(vector) for vector in vectors]
    rows = [cosine_distances(stored, vector) for vector in vectors]
    pairs = sorted(rows[one][other] for one, other in combinations(range(len(rows)), 2))
    return pairs[int(len(pairs) * UNRELATED_SHARE)]


def store_limit(connection: Connection, model: str, limit: float) -> None:
    """Store the limit of a model. Another process may have stored it meanwhile."""
    known = embedding_models.select().where(embedding_models.c.model == model)
    if connection.execute(known).first() is None:
        connection.execute(insert(embedding_models).values(model=model, max_distance=limit))
