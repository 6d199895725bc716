"""Every setting of Harness.

Order, strongest first: `HARNESS_…` variables (`HARNESS_SANDBOX__LIMITS__MEMORY_MB=2048`), then
`harness.toml` in `HARNESS_HOME` or at `HARNESS_CONFIG`, then the defaults below. A
`harness.toml` in the current directory is never read: it could belong to the repository that
a run works on.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from contracts.errors import SettingsInvalid
from flows.config.environment import (
    VARIABLE_PREFIX,
    ConfigPath,
    SettingsSources,
    absolute_path,
    config_file,
    settings_sources,
)
from providers.prices import Price
from sandbox.spec import SandboxLimits

DEFAULT_MODEL = "anthropic/claude-sonnet-5-5"

_MAY_BE_SECRET = re.compile(r"(?i)secret|token|password|key")

_SHORT = 40
"""Characters; a longer text is not quoted in an error."""

_REMOVED = {"metrics_port": "Prometheus scrapes `/metrics` of the pages, at `ui.port`"}
"""Settings of earlier versions, and what to use instead."""

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
"""The names of this machine that no other reaches."""


class SandboxSettings(BaseModel, frozen=True, extra="forbid"):
    """What every sandbox gets."""

    image: str | None = None
    """Image to start from; it needs python3, git and a user with uid 1000. None: the base image."""
    limits: SandboxLimits = SandboxLimits()
    """How much of the machine each may use."""
    pool_size: int = Field(default=2, ge=0)
    """Sandboxes that `harness up` keeps started ahead for the next runs. 0: none."""
    ttl_s: int = Field(default=6 * 3600, ge=60)
    """A sandbox ends by itself after this many seconds."""
    resume_within_s: int = Field(default=3 * 24 * 3600, ge=60)
    """The files of a run that stopped are kept so long; then it cannot go on any more. They
    are kept no shorter than its approvals wait."""
    egress: tuple[str, ...] = ()
    """Hosts that commands may reach, such as `*.example.org`. Empty: no network at all."""
    egress_addresses: tuple[str, ...] = ()
    """Addresses off the public internet that those hosts may have, such as a mirror's."""
    ca_bundle: ConfigPath | None = None
    """Certificates to trust inside, where the host's network opens TLS with its own."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables for every command in the sandbox. Never put a secret here."""


class ForgeSettings(BaseModel, frozen=True, extra="forbid"):
    """A forge whose pull requests a run opens after it pushed."""

    kind: Literal["github", "gitlab", "gitea"]
    """Whose REST API it speaks."""
    api: str = Field(pattern=r"^https?://[^/]+(/.*[^/])?$")
    """Where the API is, without a slash at its end."""
    token_variable: str
    """The variable that holds the token. Not set: no pull request is opened."""
    draft: bool = True
    """Open it as a draft."""


class LimitSettings(BaseModel, frozen=True, extra="forbid"):
    """How many runs may go on at once, over all workers of the server; the others queue."""

    per_repository: Annotated[int, Field(ge=1)] | None = None
    """On one repository. None: any number."""
    per_model: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Model name to runs that may use it. A model not named: any number."""


class TelemetrySettings(BaseModel, frozen=True, extra="forbid"):
    """Traces and metrics by OpenTelemetry."""

    endpoint: str | None = Field(default=None, pattern=r"^https?://.*[^/]$")
    """A collector's address for OTLP over HTTP, such as `http://127.0.0.1:4318`. None: off."""
    service: str = "harness"
    """What the collector calls us."""


class WebhookRule(BaseModel, frozen=True, extra="forbid"):
    """What starts a run, and which."""

    on: Literal["issue labelled", "check failed"]
    """What happened on the forge."""
    label: str = "harness"
    """The label of an issue; only people who may triage can give one."""
    repository: str = "*"
    """A pattern of the repository's full name, such as `team/*`."""
    deployment: str
    """What is started."""
    parameters: dict[str, object] = Field(default_factory=dict)
    """Values of its form, besides repository, intent and ref."""


class WebhookSettings(BaseModel, frozen=True, extra="forbid"):
    """The receiver of GitHub's webhooks, kept under `harness up` where a secret is set."""

    secret: SecretStr | None = None
    """The secret of the webhook; best as HARNESS_WEBHOOKS__SECRET. None: no receiver."""
    host: str = "127.0.0.1"
    """Where it listens; a reverse proxy with TLS leads there."""
    port: int = Field(default=4281, ge=0, le=65535)
    """Another free one is taken when it is in use."""
    repositories: dict[str, str] = Field(default_factory=dict)
    """Full name of a repository to the path or URL that its runs work on. No others are heard."""
    rules: tuple[WebhookRule, ...] = (
        WebhookRule(on="issue labelled", deployment="implement"),
        WebhookRule(on="check failed", deployment="fix-tests"),
    )
    """The first that fits is taken."""


class UiSettings(BaseModel, frozen=True, extra="forbid"):
    """Where the pages are served."""

    host: str = "127.0.0.1"
    """Other than loopback, a token is asked for."""
    port: int = Field(default=4280, ge=0, le=65535)
    """0 takes any free one."""
    token: SecretStr | None = None
    """What the pages ask for. None: nothing on loopback, a new one at each start elsewhere."""


def _known_forges() -> dict[str, ForgeSettings]:
    github, gitlab = "https://api.github.com", "https://gitlab.com/api/v4"
    return {
        "github.com": ForgeSettings(kind="github", api=github, token_variable="GITHUB_TOKEN"),  # noqa: S106 - the variable's name
        "gitlab.com": ForgeSettings(kind="gitlab", api=gitlab, token_variable="GITLAB_TOKEN"),  # noqa: S106 - the variable's name
    }


class Settings(BaseSettings):
    """All settings. Frozen; `home` holds everything that Harness keeps on this machine."""

    model_config = SettingsConfigDict(
        env_prefix=VARIABLE_PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid",
        env_ignore_empty=True,  # an empty HARNESS_HOME would be the current directory
    )  # fmt: skip

    gateway: str = Field(default="gateway", pattern=r"^[a-z0-9-]+$")
    """Which gateway to models a run asks: each name is a process with keys of its own."""
    home: Path = Path("~/.harness")
    """Reports, repositories, the local Prefect server's database."""
    model: str = DEFAULT_MODEL
    """Any litellm name, or `scripted/<file>`."""
    agent: str = "native"
    """Who does agentic nodes unless the node or the run says otherwise."""
    budget_usd: float | None = Field(default=None, gt=0)
    """A run's agents may spend this much together. None: no limit."""
    allowed_blueprints: tuple[str, ...] = ()
    """What the deployment `run-blueprint` may load besides installed blueprints: references
    or patterns of them, such as `/srv/blueprints/*.py:*`."""
    forges: dict[str, ForgeSettings] = Field(default_factory=_known_forges)
    """Host of a git remote to its forge."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Model name to dollars for a million tokens of each kind; these go before litellm's."""
    server_port: int = Field(default=4200, ge=0, le=65535)
    """Port of the local Prefect server; another free one is taken when it is in use."""
    limits: LimitSettings = LimitSettings()
    max_runs: int = Field(default=8, ge=1)
    """Runs started by deployments that this machine does at the same time; more wait."""
    sandbox: SandboxSettings = SandboxSettings()
    ui: UiSettings = UiSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    webhooks: WebhookSettings = WebhookSettings()
    memory: dict[str, object] = Field(default_factory=dict)
    """The table [memory], which `flows/config/memory.py` reads."""
    policy: dict[str, object] = Field(default_factory=dict)
    """The table [policy], which `flows/config/policy.py` reads."""

    @property
    def runs(self) -> Path:
        """One folder a run: report, diff, trajectory."""
        return self.home / "runs"

    @property
    def repos(self) -> Path:
        """Bare repositories that belong to Harness."""
        return self.home / "repos"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        toml = TomlConfigSettingsSource(settings_cls, toml_file=config_file())
        return (init_settings, env_settings, toml)


def load_settings() -> Settings:
    """Read the settings.

    Raises:
        SettingsInvalid: a value cannot be used, or the file cannot be read or is not TOML.
    """
    with settings_errors():
        settings = _read(settings_sources())
    return settings.model_copy(update={"home": absolute_path(settings.home)})


@contextmanager
def settings_errors(table: str = "") -> Iterator[None]:
    """Tell in one line what is wrong with settings. What may be a secret is not repeated.

    Raises:
        SettingsInvalid: a value cannot be used, or the file cannot be read or is not TOML.
    """
    variable = f"HARNESS_{table.upper()}_" if table else VARIABLE_PREFIX
    whence = f"It comes from {config_file()} or a {variable} variable"
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(filter(None, (table, *map(str, first["loc"]))))
        if place in _REMOVED:
            raise SettingsInvalid(
                f"setting {place!r} was removed: {_REMOVED[place]}. {whence}"
            ) from error
        found = _quoted_value(place, first)
        raise SettingsInvalid(f"setting {place!r}{found}: {first['msg']}. {whence}") from error
    except SettingsError as error:  # its text repeats the value
        field = str(error).partition('"')[2].partition('"')[0]
        place = ".".join(filter(None, (table, field)))
        raise SettingsInvalid(
            f"setting {place!r} is a table or a list: write it as JSON. {whence}"
        ) from error
    except (TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"{config_file()} is not TOML: {error}") from error
    except OSError as error:
        raise SettingsInvalid(f"{config_file()} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=2)
def _read(_: SettingsSources) -> Settings:
    """A run asks seven times, and pydantic takes 10 ms."""
    return Settings()


def _quoted_value(place: str, error: ErrorDetails) -> str:
    """The refused value for an error message, as ` is 'many'`; empty if it may hold a secret."""
    value, kind = error["input"], error["type"]
    if kind in ("missing", "extra_forbidden") or _MAY_BE_SECRET.search(place):
        return ""
    if isinstance(value, int | float):
        return f" is {value!r}"
    is_word = isinstance(value, str) and len(value) <= _SHORT and "://" not in value
    # A word in the place of a table may be anything.
    return f" is {value!r}" if is_word and not kind.endswith("_type") else ""
