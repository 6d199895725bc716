"""Settings of plans and policy: [policy] in `harness.toml`, and HARNESS_POLICY_… over it."""

from collections.abc import Sequence

from pydantic import BaseModel, Field
from pydantic_settings import SettingsConfigDict

from contracts.entity import Label
from contracts.model_access import GuardBounds
from flows.config.environment import ConfigPath
from flows.config.tables import SettingsTable, load_table
from flows.runs.request import ResolvedRequest, repo_name
from policy.authority import Authority
from policy.file_labels import FileLabels
from policy.guard.guard import SECRET_FILES
from policy.guard.protected import PROTECTED
from policy.types import APPROVAL_TTL_S

MAX_WAIT_S = 1500.0
"""Less than a node's usual limit, and less than any agent waits for its model."""


class MailSettings(BaseModel, frozen=True, extra="forbid"):
    """How `send_email` sends."""

    host: str = "127.0.0.1"
    port: int = Field(default=25, ge=1, le=65535)
    sender: str = "harness@localhost"
    """The address that mails are from."""
    starttls: bool = False
    user: str | None = None
    password: str | None = None
    """`${NAME}` stands for a variable of the environment."""


class PolicySettings(SettingsTable):
    """All settings of plans and policy. What stands here is trusted: nothing else is."""

    table = "policy"
    model_config = SettingsConfigDict(
        env_prefix="HARNESS_POLICY_", env_nested_delimiter="__", frozen=True, extra="forbid"
    )

    planner: str = "ollama/qwen3:4b"
    """The model that makes plans of prompts: any litellm name, or `scripted/<file>`."""
    executor: str | None = None
    """The model that composes, summarises and extracts. None: the setting `model`."""
    grants: frozenset[str] = frozenset(
        {"READ_FILE", "WRITE_FILE", "RUN_COMMAND", "GIT_COMMIT", "ASK_MODEL", "ASK_PERSON"}
    )
    """Capabilities that every plan has: by default those that leave nothing but the sandbox's
    own files changed. `--grant` adds to them."""
    principals: dict[str, frozenset[str]] = Field(default_factory=dict)
    """Names, and the addresses that are theirs: mail, origins of web pages, git remotes."""
    tags: frozenset[str] = frozenset()
    """Data capabilities in use besides `share_with:…`, such as `pii`."""
    files: dict[str, frozenset[str]] = Field(default_factory=dict)
    """Patterns of files, such as `hr/**`, and the data capabilities that these carry."""
    trust_workspace: bool = False
    """What stands in the repository or folder is your own word, not an untrusted origin."""
    approval_ttl_s: float = Field(default=APPROVAL_TTL_S, gt=0)
    """An approval nobody used by then is worth nothing."""
    operations: tuple[ConfigPath, ...] = ()
    """Files of Python with operations of your own, made with `policy.plan.registry.operation`."""
    ask_for_agents: bool = True
    """What the guard denies an agent becomes an approval; if not, the denial is the last word."""
    wait_approvals_s: float = Field(default=0.0, ge=0, le=MAX_WAIT_S)
    """How long an agent waits for a person's decision before it goes on with other work. The
    time counts towards its node's limit. 0: it goes on at once, which is what a night wants."""
    mail: MailSettings = MailSettings()
    guard: bool = True
    """Agents ask before what leaves the sandbox, or changes what others run."""
    protected: tuple[str, ...] = PROTECTED
    """Patterns of files that change only where `--allow-change`, a blueprint's `changes` or a
    person permits it: files that others execute or obey."""
    secret: tuple[str, ...] = SECRET_FILES
    """Patterns of files that hold secrets: who has read one reaches nobody."""

    @property
    def file_labels(self) -> FileLabels:
        """Which files carry which tags."""
        return FileLabels(caps=self.files)

    def authority(self, grants: frozenset[str]) -> Authority:
        """What is allowed, with these grants of the user's."""
        tagged = frozenset().union(*self.files.values())
        named = {cap for cap in self.tags | tagged if not cap.startswith("share_with:")}
        return Authority(
            grants=self.grants | grants, principals=self.principals, tags=frozenset(named)
        )

    def bounds(self, request: ResolvedRequest, hosts: Sequence[str]) -> GuardBounds | None:
        """What the guard of this run's agents goes by; None when there is to be none."""
        if not self.guard:
            return None
        repo, place = f"repo:{repo_name(request.repo)}", request.intent_from
        return GuardBounds(
            taint=(repo, place) if place else (repo,),
            protected=self.protected,
            secret=self.secret,
            hosts=(*hosts, *request.definition.egress),
            changes=(*request.definition.changes, *request.allow_change),
            ask=self.ask_for_agents,
            wait_s=self.wait_approvals_s,
        )

    def plan_bounds(self, allow_change: Sequence[str], workspace: Label) -> GuardBounds | None:
        """Which files a plan pushes changed only where `allow_change` permits it.

        None: any, for there is no guard, or nothing untrusted has come into its workspace.
        """
        if not self.guard or not workspace.taint:
            return None
        taint = tuple(sorted(workspace.taint))
        return GuardBounds(taint=taint, protected=self.protected, changes=tuple(allow_change))


def load_policy_settings() -> PolicySettings:
    """Read the settings.

    Raises:
        SettingsInvalid: a value cannot be used, or the file is not TOML.
    """
    return load_table(PolicySettings)
