"""Every setting of Harness.

Order, strongest first: `HARNESS_…` variables (`HARNESS_SANDBOX__LIMITS__MEMORY_MB=2048`), then
`harness.toml` in `HARNESS_HOME` or at `HARNESS_CONFIG`, then the defaults below. A
`harness.toml` in the current directory is never read: it could belong to the repository that
a run works on.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from contracts.agents import AGENTS
from contracts.errors import SettingsInvalid
from flows.config.environment import (
    VARIABLE_PREFIX,
    ConfigPath,
    absolute_path,
    config_file,
)
from flows.config.mcp import McpServer, ServerName
from nodes.agents.table import OwnAgent, set_own_agents
from nodes.model_names import ModelNames
from providers.gateway_api import Price
from sandbox.spec import SandboxLimits

DEFAULT_MODEL = "anthropic/claude-sonnet-5-5"

_MAY_BE_SECRET = re.compile(r"(?i)secret|token|password|key")

_SHORT = 40
"""Longest text, in characters, that an error quotes."""

_REMOVED = {
    "metrics_port": "Prometheus scrapes `/metrics` of the pages, at `ui.port`",
    "sandbox.pool_size": "each run starts its own sandbox. Delete the line",
}
"""Settings of earlier versions, and their replacements."""

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
"""Host names of this machine that no other machine can reach."""


class SandboxSettings(BaseModel, frozen=True, extra="forbid"):
    """Settings of every sandbox."""

    image: str | None = None
    """Image to start from; it needs python3, git and a user with uid 1000. None: the base image."""
    runtime: str | None = None
    """OCI runtime that the engine starts sandboxes with, such as `runsc`. None: its default."""
    limits: SandboxLimits = SandboxLimits()
    """Limits of memory, processors, processes and disk of one sandbox."""
    ttl_s: int = Field(default=6 * 3600, ge=60)
    """Seconds after which a sandbox is removed."""
    resume_within_s: int = Field(default=3 * 24 * 3600, ge=60)
    """Seconds that the files of a stopped run are kept; after that it cannot be resumed. They are
    kept at least as long as its approvals are pending."""
    egress: tuple[str, ...] = ()
    """Hosts that commands may access, such as `*.example.org`, and package indexes by name
    (`python`, `rust`). Empty: no network but for installs."""
    install_network: bool | None = None
    """Installs may reach the package indexes of the project, until the first agent works. None:
    yes, unless `image` is set."""
    environments_mb: int = Field(default=20_480, ge=0)
    """Disk space of kept environments; those not used for the longest time go first. 0: installs
    run anew each time."""
    egress_addresses: tuple[str, ...] = ()
    """Private IP addresses that those hosts may have, such as a mirror's."""
    ca_bundle: ConfigPath | None = None
    """Certificates to trust in the sandbox, if a proxy of your network decrypts TLS."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables for every command in the sandbox. Never put a secret here."""

    @property
    def installs_online(self) -> bool:
        """Whether installs may reach package indexes."""
        return self.image is None if self.install_network is None else self.install_network


class ForgeSettings(BaseModel, frozen=True, extra="forbid"):
    """A forge whose pull requests a run opens after it pushed."""

    kind: Literal["github", "gitlab", "gitea"]
    """The REST API of the forge."""
    api: str = Field(pattern=r"^https?://[^/]+(/.*[^/])?$")
    """URL of the API, without a slash at the end."""
    token_variable: str
    """Environment variable with the token. If it is not set, no pull request is opened."""
    draft: bool = True
    """Open pull requests as drafts."""
    answers: int = Field(default=10, ge=0, le=100)
    """Comments on one pull request that its run answers at most. 0: none."""


class LimitSettings(BaseModel, frozen=True, extra="forbid"):
    """Concurrent runs over all workers of the server; further runs wait in a queue."""

    per_repository: Annotated[int, Field(ge=1)] | None = None
    """Concurrent runs on one repository. None: no limit."""
    per_model: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Concurrent runs by model name. Models not listed: no limit."""


class TelemetrySettings(BaseModel, frozen=True, extra="forbid"):
    """Traces and metrics by OpenTelemetry."""

    endpoint: str | None = Field(default=None, pattern=r"^https?://.*[^/]$")
    """URL of a collector for OTLP over HTTP, such as `http://127.0.0.1:4318`. None: off."""
    service: str = "harness"
    """Service name in traces and metrics."""


class WebhookRule(BaseModel, frozen=True, extra="forbid"):
    """An event of a forge and the deployment that it starts."""

    on: Literal["issue opened", "issue labelled", "check failed"]
    """The event."""
    label: str = "harness"
    """Label of the issue. On GitHub, only people with triage rights can add labels."""
    repository: str = "*"
    """Pattern of the repository's full name, such as `team/*`."""
    deployment: str
    """Name of the deployment."""
    parameters: dict[str, object] = Field(default_factory=dict)
    """Parameters of the deployment besides repository, intent and ref."""


class WebhookSettings(BaseModel, frozen=True, extra="forbid"):
    """The receiver of GitHub webhooks. `harness up` starts it if a secret is set."""

    secret: SecretStr | None = None
    """Secret of the webhook; best set as HARNESS_WEBHOOKS__SECRET. None: no receiver."""
    host: str = "127.0.0.1"
    """Address to listen on; put a reverse proxy with TLS in front."""
    port: int = Field(default=4281, ge=0, le=65535)
    """Preferred port; a free one is used if it is taken."""
    repositories: dict[str, str] = Field(default_factory=dict)
    """Path or URL to work on, by full name of the repository. Other repositories are ignored."""
    rules: tuple[WebhookRule, ...] = (
        WebhookRule(on="issue labelled", deployment="implement"),
        WebhookRule(on="check failed", deployment="fix-tests"),
    )
    """The first matching rule is applied."""


class UiSettings(BaseModel, frozen=True, extra="forbid"):
    """Address and token of the web pages."""

    host: str = "127.0.0.1"
    """Address to listen on. A token is required if it is not a loopback address."""
    port: int = Field(default=4280, ge=0, le=65535)
    """Preferred port. 0: any free port."""
    token: SecretStr | None = None
    """Token for the pages. None: none on loopback, else a new one at each start."""


def _known_forges() -> dict[str, ForgeSettings]:
    github, gitlab = "https://api.github.com", "https://gitlab.com/api/v4"
    return {
        "github.com": ForgeSettings(kind="github", api=github, token_variable="GITHUB_TOKEN"),  # noqa: S106 - the variable's name
        "gitlab.com": ForgeSettings(kind="gitlab", api=gitlab, token_variable="GITLAB_TOKEN"),  # noqa: S106 - the variable's name
    }


def _free_name(name: str) -> str:
    if name in AGENTS:
        raise ValueError(f"{name} is a built-in agent: choose another name")
    return name


OwnName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$"), AfterValidator(_free_name)]
"""Name of an agent of the settings; its image is named after it."""


class Settings(BaseSettings):
    """All settings."""

    model_config = SettingsConfigDict(
        env_prefix=VARIABLE_PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid",
        env_ignore_empty=True,  # an empty HARNESS_HOME would be the current directory
    )  # fmt: skip

    gateway: str = Field(default="gateway", pattern=r"^[a-z0-9-]+$")
    """Name of the gateway to models. Each name is a process with keys of its own."""
    home: Path = Path("~/.harness")
    """Folder of runs, repositories, databases and everything else that Harness stores."""
    model: ModelNames = DEFAULT_MODEL
    """Any litellm name, or `scripted/<file>`. Of several, the next is asked when one does not
    answer."""
    agent: str = "native"
    """Agent for agentic nodes, if neither the node nor the run names one."""
    budget_usd: float | None = Field(default=None, gt=0)
    """US dollars that all agents of a run may spend together. None: no limit."""
    budget_tokens: int | None = Field(default=None, gt=0)
    """Tokens that all agents of a run may use together. None: five million if the price of a model
    is not known, else no limit."""
    context_tokens: int | None = Field(default=None, ge=4000)
    """Tokens that a conversation of the native agent may have. None: as many as litellm knows that
    the model takes, and 128,000 for a model that it does not know."""
    allowed_blueprints: tuple[str, ...] = ()
    """Blueprints that the deployment `run-blueprint` may load besides installed ones: references
    or patterns, such as `/srv/blueprints/*.py:*` and `/srv/blueprints/*.md`."""
    forges: dict[str, ForgeSettings] = Field(default_factory=_known_forges)
    """Host of a git remote to its forge."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Model name to dollars for a million tokens of each kind; these go before litellm's."""
    server_port: int = Field(default=4200, ge=0, le=65535)
    """Port of the local Prefect server; another free one is taken when it is in use."""
    fork_server_idle_s: int = Field(default=3600, ge=0)
    """Seconds without a command after which the process ends from which `harness run` and others
    are forked. 0: there is none, and each command imports Prefect."""
    limits: LimitSettings = LimitSettings()
    max_runs: int = Field(default=8, ge=1)
    """Runs started by deployments that this machine does at the same time; more wait."""
    agents: dict[OwnName, OwnAgent] = Field(default_factory=dict)
    """Agents besides the built-in ones, by name."""
    sandbox: SandboxSettings = SandboxSettings()
    ui: UiSettings = UiSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    webhooks: WebhookSettings = WebhookSettings()
    deployments: dict[str, dict[str, object]] = Field(default_factory=dict)
    """Deployments that `harness up` makes, by name; `flows/runs/deployment_request.py` has the
    fields."""
    mcp: dict[ServerName, McpServer] = Field(default_factory=dict)
    """MCP servers whose tools agents may be given, by name."""
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
    """Read the settings, and make their agents known in this process.

    Raises:
        SettingsInvalid: a value cannot be used, or the file cannot be read or is not TOML.
    """
    with settings_errors():
        settings = Settings()
    set_own_agents(settings.agents)
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
