"""Settings of plans and policy: [policy] in `harness.toml`, and HARNESS_POLICY_… over it."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field
from pydantic_settings import SettingsConfigDict

from contracts.entity import Label
from contracts.model_access import GuardBounds
from flows.config.environment import ConfigPath
from flows.config.mcp import McpServer
from flows.config.tables import SettingsTable, load_table
from flows.runs.request import ResolvedRequest
from policy.authority import Authority, FileLabels
from policy.guard.guard import SECRET_FILES
from policy.guard.protected import EXCEPT, default_patterns
from policy.types import APPROVAL_TTL_S

MAX_WAIT_S = 1500.0
"""Less than the default time limit of a node, and than any agent waits for its model."""


class MailSettings(BaseModel, frozen=True, extra="forbid"):
    """SMTP settings of the operation `send_email`."""

    host: str = "127.0.0.1"
    port: int = Field(default=25, ge=1, le=65535)
    sender: str = "harness@localhost"
    """From address."""
    starttls: bool = False
    user: str | None = None
    password: str | None = None
    """`${NAME}` stands for a variable of the environment."""


class PolicySettings(SettingsTable):
    """All settings of plans and policy. This table is trusted input."""

    table = "policy"
    model_config = SettingsConfigDict(
        env_prefix="HARNESS_POLICY_", env_nested_delimiter="__", frozen=True, extra="forbid"
    )

    planner: str = "ollama/qwen3:4b"
    """Model that makes plans: any litellm name, or `scripted/<file>`."""
    executor: str | None = None
    """Model that composes, summarises and extracts. None: the setting `model`."""
    grants: frozenset[str] = frozenset(
        {"READ_FILE", "WRITE_FILE", "RUN_COMMAND", "GIT_COMMIT", "ASK_MODEL", "ASK_PERSON"}
    )
    """Capabilities of every plan: by default those that change only files of the sandbox.
    `--grant` adds to them."""
    principals: dict[str, frozenset[str]] = Field(default_factory=dict)
    """Principals by name, with their addresses: mail, origins of web pages, git remotes."""
    tags: frozenset[str] = frozenset()
    """Data capabilities in use besides `share_with:…`, such as `pii`."""
    files: dict[str, frozenset[str]] = Field(default_factory=dict)
    """Patterns of files, such as `hr/**`, and the data capabilities that these carry."""
    trust_workspace: bool = False
    """Trust the content of the repository or folder like your own prompt."""
    approval_ttl_s: float = Field(default=APPROVAL_TTL_S, gt=0)
    """Seconds after which an unused approval expires."""
    operations: tuple[ConfigPath, ...] = ()
    """Files of Python with operations of your own, made with `policy.plan.registry.operation`."""
    ask_for_agents: bool = True
    """Turn denied calls of agents into approvals. False: a denial is final."""
    wait_approvals_s: float = Field(default=0.0, ge=0, le=MAX_WAIT_S)
    """Seconds an agent waits for your decision before it continues without the action. The time
    counts towards the limit of its node. 0: it continues at once, as for unattended runs."""
    mail: MailSettings = MailSettings()
    guard: bool = True
    """Check calls of agents that send data out or change files that others execute."""
    protected: tuple[str, ...] = Field(default_factory=default_patterns)
    """Patterns of files that others execute or obey. They change only with `--allow-change`, a
    blueprint's `changes`, or an approval. `harness policy protected` prints them."""
    protected_also: tuple[str, ...] = ()
    """Patterns added to `protected`."""
    protected_except: tuple[str, ...] = ()
    """Patterns of files that are not protected although one of the others matches them."""
    secret: tuple[str, ...] = SECRET_FILES
    """Patterns of files with secrets. An agent that has read one may not send data anywhere."""
    tracked_secrets: Literal["close", "open"] = "close"
    """Where git tracks files that look like secrets: `close` gives the run no way out of its
    sandbox, `open` leaves it as configured."""

    @property
    def protected_patterns(self) -> tuple[str, ...]:
        """`protected`, what is added to it, and what is cut, which begins with `!`."""
        cut = (f"{EXCEPT}{pattern}" for pattern in self.protected_except)
        return (*self.protected, *self.protected_also, *cut)

    @property
    def file_labels(self) -> FileLabels:
        """The labels of files."""
        return FileLabels(caps=self.files)

    def authority(self, grants: frozenset[str]) -> Authority:
        """Return the authority of a plan with these additional grants."""
        tagged = frozenset().union(*self.files.values())
        named = {cap for cap in self.tags | tagged if not cap.startswith("share_with:")}
        return Authority(
            grants=self.grants | grants, principals=self.principals, tags=frozenset(named)
        )

    def bounds(
        self, request: ResolvedRequest, hosts: Sequence[str], servers: Mapping[str, McpServer]
    ) -> GuardBounds | None:
        """Return the bounds for the guard of this run's agents; None if the guard is off.

        An MCP server that they may use taints everything: agents read what it says of its tools.
        """
        if not self.guard:
            return None
        used = {name: servers[name] for name in request.mcp_servers if name in servers}
        return GuardBounds(
            taint=(*request.taint, *(f"mcp:{name}" for name in used)),
            protected=self.protected_patterns,
            secret=self.secret,
            hosts=(*hosts, *request.definition.egress) if request.way_out else (),
            changes=(*request.definition.changes, *request.allow_change),
            ask=self.ask_for_agents,
            wait_s=self.wait_approvals_s,
            mentioned=request.mentioned_files,
            effects={
                f"{name}:{tool}": effect
                for name, server in used.items()
                for tool, effect in server.tools.items()
            },
        )

    def plan_bounds(self, allow_change: Sequence[str], workspace: Label) -> GuardBounds | None:
        """Return the bounds for what a plan pushes.

        None, which permits all, if the guard is off or the workspace has no untrusted content.
        """
        if not self.guard or not workspace.taint:
            return None
        taint = tuple(sorted(workspace.taint))
        return GuardBounds(
            taint=taint, protected=self.protected_patterns, changes=tuple(allow_change)
        )


def load_policy_settings() -> PolicySettings:
    """Read the settings.

    Raises:
        SettingsInvalid: a value cannot be used, or the file is not TOML.
    """
    return load_table(PolicySettings)
