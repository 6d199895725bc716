"""The baseline: a Prefect flow whose one task does nothing."""

from prefect import flow, task
from prefect.cache_policies import NO_CACHE


@task(cache_policy=NO_CACHE)
def first() -> None:
    """Nothing."""


@flow(name="bare")
def bare() -> None:
    """One task."""
    first()
