"""What somebody asks for when they want a plan, and how it stands in the event log."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from contracts.entity import EMPTY_LABEL, Entity, Label
from contracts.errors import RepoInvalid, RunNotFound
from contracts.json import Json, canonical_json
from contracts.text import check_text
from flows.plans.process import plan_folder
from flows.runs.addresses import save_address, saved_address
from flows.runs.check_request import check_patterns
from flows.runs.request import absolute_repo, repo_name
from policy.log.event_log import EventLog
from policy.log.events import Draft
from policy.plan.plan_json import parse_plan
from policy.types import Plan, UserPrompt
from sandbox.redaction import redact_url


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """A prompt, and what its plan may work on and do.

    `repo` is kept as it is from the root: a plan goes on wherever it was agreed to.
    `intent` is a text from an untrusted place, called `intent_from`: the planner never sees
    it, the plan may refer to it. `allow_change` are patterns of protected files that may be
    pushed changed. `flow_run` is the id of the Prefect flow run that suspends
    itself to ask a person; empty when a process on a terminal runs the plan.
    """

    prompt: str
    repo: str = "."
    grants: frozenset[str] = frozenset()
    allow_change: tuple[str, ...] = ()
    intent: str | None = None
    intent_from: str = ""
    flow_run: str = ""

    def __post_init__(self) -> None:
        if not self.repo.strip():
            raise RepoInvalid("no repository is named: '.' is the current directory")
        check_text("the prompt", self.prompt)
        check_text("the intent", self.intent or "")
        check_text("the name of the intent's file", self.intent_from)
        check_text("--grant", " ".join(self.grants))
        check_patterns(self.allow_change)
        object.__setattr__(self, "repo", absolute_repo(self.repo))

    def entities(self, *, trusted: bool) -> dict[str, Entity]:
        """What references may lead to when the plan begins, by name."""
        name, *_ = self.taint
        label = EMPTY_LABEL if trusted else Label(taint=frozenset({name}))
        held = {"place.workspace": Entity(content=redact_url(self.repo), label=label, origin=name)}
        if self.intent is not None:
            source = self.taint[-1]
            held["input.intent"] = Entity(
                content=self.intent, label=Label(taint=frozenset({source})), origin=source
            )
        return held

    @property
    def taint(self) -> tuple[str, ...]:
        """The untrusted origins of what it gives: the repository, the intent where there is one."""
        repo = f"repo:{repo_name(self.repo)}"
        return (repo,) if self.intent is None else (repo, f"intent:{self.intent_from}")

    def with_grants(self, grants: frozenset[str]) -> "PlanRequest":
        """The same request, with these grants besides."""
        return replace(self, grants=self.grants | grants)

    @property
    def inputs(self) -> dict[str, str]:
        """Names that a plan may refer to, and what each is."""
        about = f"the text of {self.intent_from}, which is not to be trusted"
        return {} if self.intent is None else {"intent": about}


def record_plan(
    log: EventLog, run_id: str, request: PlanRequest, plan: Plan, *, agreed: bool
) -> None:
    """Put the prompt and its plan into the log; only one that is agreed on is ever run."""
    prompt = UserPrompt(text=request.prompt, at=datetime.now(UTC))
    said = Entity(content=prompt.text, label=EMPTY_LABEL, origin="prompt")
    body: dict[str, Json] = {
        "plan": plan.id,
        "steps": plan.as_json(),
        "agreed": agreed,
        "prompt": request.prompt,
        "repo": save_address(plan_folder(log), run_id, request.repo),
        "grants": sorted(request.grants),
        "allow_change": list(request.allow_change),
        "intent": request.intent,
        "intent_from": request.intent_from,
        "flow_run": request.flow_run,
    }
    log.append(
        [
            Draft(kind="prompt", run_id=run_id, body={"prompt": prompt.id}, produces=(said,)),
            Draft(kind="plan", run_id=run_id, body=body, consumes=(said.id,)),
        ]
    )


def recorded_plan(log: EventLog, run_id: str, *, agreed: bool = True) -> tuple[PlanRequest, Plan]:
    """What a run was asked for, and the plan that was drafted, or agreed on, for it.

    Raises:
        RunNotFound: there is no such plan under this id.
    """
    known = log.events(run_id, kind="plan", merged=False)
    found = [event for event in known if not agreed or event.body.get("agreed")]
    if not found and len(log.events(run_id, kind="plan")) > len(known):
        raise RunNotFound(
            f"the plan of run {run_id!r} came here from another log: `harness events` reads it, "
            "and nothing runs it"
        )
    if not found:
        raise RunNotFound(f"no plan runs or ran as {run_id!r}")
    body: Mapping[str, Json] = found[0].body
    prompt = UserPrompt(text=str(body["prompt"]), at=found[0].at)
    grants, allowed = body["grants"], body.get("allow_change")  # of an older home: none
    request = PlanRequest(
        prompt=prompt.text,
        repo=saved_address(plan_folder(log), run_id, str(body["repo"])),
        grants=frozenset(str(one) for one in grants) if isinstance(grants, tuple) else frozenset(),
        allow_change=tuple(map(str, allowed)) if isinstance(allowed, tuple) else (),
        intent=None if body["intent"] is None else str(body["intent"]),
        intent_from=str(body["intent_from"]),
        flow_run=str(body["flow_run"]),
    )
    return request, parse_plan(canonical_json(body["steps"]), prompt=prompt.id)
