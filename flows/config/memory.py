"""Settings of memory: the table [memory] of `harness.toml`, and HARNESS_MEMORY_… over it."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import SettingsConfigDict

from flows.config.environment import relative_to_config
from flows.config.tables import SettingsTable, load_table
from memory.types import GroupThresholds, RecallOptions, Retention

MemoryTools = Literal["off", "read", "draft"]
EmbeddingProvider = Literal["local", "google", "openai", "ollama", "litellm", "none"]

EXAMPLE_LITELLM_MODEL = "mistral/mistral-embed"
"""An example for the provider `litellm`, which has no default model."""

_log = logging.getLogger("memory.settings")  # warnings of `memory` are shown at the terminal

_VARIABLE = re.compile(r"\$\{(\w+)\}")


class EmbeddingSettings(BaseModel, frozen=True, extra="forbid"):
    """The provider of embeddings."""

    provider: EmbeddingProvider = "local"
    """`local` needs no key and no network; `litellm` takes any model; `none`: search by words."""
    model: str | None = Field(default=None, validate_default=True)
    """None: the provider's default; `litellm` has no default."""
    dimensions: int | None = Field(default=None, ge=1)
    """None: the model's default."""
    api_key: str | None = None
    """`${NAME}` stands for a variable of the environment."""
    url: str | None = None
    """URL of the provider, if it is not the default; `${NAME}` as above."""

    @field_validator("model")
    @classmethod
    def _is_named(cls, model: str | None, given: ValidationInfo) -> str | None:
        if given.data.get("provider") == "litellm" and not model:
            raise PydanticCustomError(
                "no_model", f"provider 'litellm' needs one, as {EXAMPLE_LITELLM_MODEL!r}"
            )
        return model


class MemorySettings(SettingsTable):
    """All settings of memory."""

    table = "memory"
    removed = {  # noqa: RUF012 - as `table`: annotated where it is declared
        "auto_reflect": "lessons wait for a person: `harness memory reflect` shows them",
        "approve_confidence": "notes and examples that a run teaches wait for a person: "
        "`harness notes list --status Pending` shows them",
    }
    model_config = SettingsConfigDict(
        env_prefix="HARNESS_MEMORY_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
    )

    enabled: bool = True
    """Give runs playbooks, and record their outcome."""
    data: str | None = None
    """A file or a SQLAlchemy URL. None: `harness.db` in the home."""
    chroma_url: str | None = None
    """A `chroma run` to use. None: a folder in the home."""
    embedding: EmbeddingSettings = EmbeddingSettings()
    reflect_model: str | None = None
    """Model that reflects on runs that used a playbook. A person accepts or refuses its lessons.
    None: no reflection."""
    curate: Literal["off", "rated", "success"] = "rated"
    """Runs that are curated automatically: successful ones that a person rated above 80, or all
    successful ones. A person accepts or refuses the proposed notes and examples."""
    curate_model: str | None = None
    """Model for curation. None: the setting `model`."""
    curate_budget_usd: float = Field(default=0.5, gt=0)
    """US dollars for the curation of one run."""
    max_age_days: float = Field(default=90.0, ge=0)
    """`prune` archives playbooks that were neither used nor changed for so many days."""
    min_confidence: float = Field(default=0.3, ge=0, le=1)
    """Confidence below which `prune` also archives unchanged playbooks. 0: none."""
    limit: int = Field(default=5, ge=0)
    """Most playbooks of each group that a run is given."""
    budget_tokens: int = Field(default=2_000, ge=0)
    """Most tokens of memory in a prompt."""
    max_distance: float | None = Field(default=None, ge=0, le=2)
    """Largest cosine distance at which a playbook is found by meaning. None: the limit measured for
    the embedding model, or 1."""
    confidence_weight: float = Field(default=0.3, ge=0, le=1)
    holdout_share: float = Field(default=0.1, ge=0, le=1)
    """Share of runs that is given no playbook, to measure the benefit of memory. 0: none."""
    tools: MemoryTools = "off"
    """Playbook tools of agents: none, search and read, or also save drafts to be accepted."""
    proven_min: float = Field(default=0.5, ge=0, le=1)
    failed_max: float = Field(default=0.3, ge=0, le=1)

    @property
    def curates(self) -> bool:
        """True if any run is curated automatically."""
        return self.enabled and self.curate != "off"

    @property
    def retention(self) -> Retention:
        """The rules of `prune`."""
        return Retention(max_age_days=self.max_age_days, min_confidence=self.min_confidence)

    @property
    def contrast(self) -> GroupThresholds:
        """The thresholds of the groups of results."""
        return GroupThresholds(proven_min=self.proven_min, failed_max=self.failed_max)

    @property
    def surfacing(self) -> RecallOptions:
        """The options of the search for a run's playbooks."""
        return RecallOptions(
            limit=self.limit,
            budget_tokens=self.budget_tokens,
            max_distance=self.max_distance,
            confidence_weight=self.confidence_weight,
            holdout_share=self.holdout_share,
            contrast=self.contrast,
        )

    @field_validator("tools", mode="before")
    @classmethod
    def _may_not_write(cls, tools: object) -> object:
        """Read `write` of an older version as `draft`, so that its file stays valid."""
        if tools != "write":
            return tools
        _log.warning(
            "setting 'memory.playbooks.tools' is 'write', which is 'draft' now: what agents save "
            "is a draft until a person accepts it"
        )
        return "draft"

    @field_validator("chroma_url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        try:
            _ = urlsplit(url or "").port
        except ValueError as error:
            raise PydanticCustomError("no_address", f"no address of a Chroma: {error}") from error
        return url

    def database(self, home: Path) -> str | Path:
        """Return the path or URL of the database of memory."""
        if self.data is None:
            return home / "harness.db"
        return self.data if "://" in self.data else relative_to_config(Path(self.data))


def load_memory_settings() -> MemorySettings:
    """Read the settings.

    Raises:
        SettingsInvalid: a value cannot be used, or the file is not TOML.
    """
    return load_table(MemorySettings)


def expand_variables(text: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the text with each `${NAME}` replaced; None if a variable is not set."""
    if text is None or unset_variables(text, environ):
        return None
    return _VARIABLE.sub(lambda found: environ[found[1]], text)


def unset_variables(text: str | None, environ: Mapping[str, str]) -> list[str]:
    """Return the names of `${NAME}` in the text that are not set."""
    return [name for name in _VARIABLE.findall(text or "") if name not in environ]
