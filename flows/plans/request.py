"""A plan request: everything that a user gives to get a plan made and run.

One model serves Prefect's form, the command line, the HTTP API, the event log and a resumed plan.
"""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from contracts.entity import EMPTY_LABEL, Entity, Label
from contracts.errors import RepoInvalid
from flows.runs.request import RunRequest, absolute_repo, repo_name
from flows.runs.request_checks import check_patterns
from nodes.text import check_text
from sandbox.redaction import redact_url

NOT_ON_A_FORM = ("intent", "intent_from", "flow_run")
"""Fields that the form of a plan does not have."""

_RUN_FIELDS = RunRequest.model_fields


class PlanPrompt(BaseModel):
    """A prompt, and what its plan may work on and do.

    Raises (when made):
        RepoInvalid, BadInput: names the field, what was found, and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str = Field(title="Prompt", description="What you want, in your own words.")
    repo: str = Field(
        title="Repository", description="Folder, git repository or its URL to work on."
    )
    grants: frozenset[str] = Field(
        default=frozenset(),
        title="Grants",
        description="Capabilities of the plan besides the configured ones, such as SEND_EMAIL.",
    )
    allow_change: tuple[str, ...] = Field(
        default=(),
        title="Allow changes of protected files",
        description=_RUN_FIELDS["allow_change"].description,
    )
    intent: str | None = Field(
        default=None,
        title="Intent",
        description="A text from an untrusted place. The plan may refer to it; the planner never "
        "sees it.",
    )
    intent_from: str = Field(
        default="",
        title="Intent taken from",
        description=_RUN_FIELDS["intent_from"].description,
    )

    @field_validator("prompt", "intent", "intent_from", mode="before")
    @classmethod
    def _is_text(cls, text: object) -> object:
        if isinstance(text, str):
            check_text("the prompt or the intent", text)
        return text

    @field_validator("repo", mode="before")
    @classmethod
    def _is_absolute(cls, repo: object) -> object:
        """A plan may be resumed from another directory."""
        if not isinstance(repo, str):
            return repo
        if not repo.strip():
            raise RepoInvalid("no repository is named: '.' is the current directory")
        return absolute_repo(repo)

    @field_validator("grants", mode="before")
    @classmethod
    def _are_text(cls, grants: object) -> object:
        if isinstance(grants, (list, tuple, set, frozenset)):
            check_text("--grant", " ".join(map(str, grants)))
        return grants

    @field_validator("allow_change")
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        check_patterns(patterns)
        return patterns


class PlanRequest(PlanPrompt):
    """A prompt, and the flow run of its plan."""

    flow_run: str = Field(
        default="",
        title="Flow run",
        description="Id of the Prefect flow run that suspends itself to ask a person. Empty if "
        "another process runs the plan.",
    )

    @property
    def taint(self) -> tuple[str, ...]:
        """The untrusted origins of the repository, and of the intent if there is one."""
        repo = f"repo:{repo_name(self.repo)}"
        return (repo,) if self.intent is None else (repo, f"intent:{self._intent_source}")

    @property
    def _intent_source(self) -> str:
        return self.intent_from or "the request"

    @property
    def inputs(self) -> dict[str, str]:
        """Names of inputs that a plan may refer to, each with its description."""
        about = f"the text of {self._intent_source}, which is not to be trusted"
        return {} if self.intent is None else {"intent": about}

    def entities(self, *, trusted: bool) -> dict[str, Entity]:
        """Entities that references lead to when the plan begins, by name.

        With `trusted` the repository is the user's own word.
        """
        repo = self.taint[0]
        label = EMPTY_LABEL if trusted else Label(taint=frozenset({repo}))
        found = {"place.workspace": Entity(content=redact_url(self.repo), label=label, origin=repo)}
        if self.intent is not None:
            source = self.taint[-1]
            found["input.intent"] = Entity(
                content=self.intent, label=Label(taint=frozenset({source})), origin=source
            )
        return found

    def run_request(self, blueprint: str, intent: str) -> RunRequest:
        """Return the request of a run that a step of this plan starts.

        Raises:
            BadInput: as `RunRequest.of`.
        """
        return RunRequest.of(
            blueprint=blueprint,
            repo=self.repo,
            intent=intent,
            intent_from="" if self.intent is None else self.taint[-1],
            allow_change=self.allow_change,
        )

    def with_grants(self, grants: frozenset[str]) -> "PlanRequest":
        """Return this request with more grants."""
        return self.model_copy(update={"grants": self.grants | grants})
