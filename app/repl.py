"""The session of `harness repl`: each line is a prompt, or a command that begins with a colon."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from json import dumps
from time import sleep

from rich.console import Console

from app.terminal.identity import user_name
from contracts.errors import HarnessError, OptionInvalid
from contracts.json import Json
from flows.audit.question_text import full_text
from flows.config.settings import Settings
from flows.plans.record import plan_delta
from flows.plans.report import plan_lines
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies
from flows.plans.start import (
    BackgroundPlan,
    after_decision_line,
    resume_in_background,
    start_background_plan,
)
from flows.plans.state import agree_to_plan, plan_state, record_draft
from nodes.text import strip_control_characters
from policy.log.events import Event
from policy.plan.registry import plain_json
from policy.types import Approval, ApprovalStatus

HELP = """\
any other line         make a plan from it; nothing is run
:plan [PLAN]           show a plan and its progress
:run [PLAN]            agree to the plan, grant what it needs, and watch it run
:approve [A] [REASON]  allow a pending action, once
:deny [A] [REASON]     refuse a pending action
:events [N]            show the newest events (20)
:help, :quit
Without PLAN, a command applies to the plan shown last; without A, to its only pending action."""

POLL_S = 0.1
_PROMPT = "harness> "
_MAX_EVENT_CHARACTERS = 120


@dataclass(kw_only=True)
class Repl:
    """One session."""

    dependencies: PlanDependencies
    settings: Settings
    console: Console
    repo: str
    grants: frozenset[str] = frozenset()
    allow_change: tuple[str, ...] = ()
    plan_id: str = ""
    """Run id of the plan that was shown last."""
    _commands: Mapping[str, Callable[[str], None]] = field(init=False)

    def __post_init__(self) -> None:
        self._commands = {
            "help": lambda _: self._print(HELP),
            "plan": self._show,
            "run": self._run,
            "approve": lambda words: self._decide("approved", words),
            "deny": lambda words: self._decide("denied", words),
            "events": self._events,
        }

    def loop(self, lines: Iterable[str]) -> None:
        """Process the lines until `:quit` or the last one; an error is printed as one line."""
        self._print_prompt()
        for line in lines:
            if line.strip() == ":quit":
                return
            try:
                self._process(line.strip())
            except HarnessError as error:
                self._print(f"error: {error}", "red")
            except KeyboardInterrupt:
                self._print("stopped watching; a running plan continues", "dim")
            self._print_prompt()

    def _process(self, line: str) -> None:
        if line.startswith(":"):
            name, _, words = line[1:].partition(" ")
            if name not in self._commands:
                raise OptionInvalid(f"no command {f':{name}'!r}: `:help` lists the commands")
            self._commands[name](words.strip())
        elif line:
            request = PlanRequest(
                prompt=line, repo=self.repo, grants=self.grants, allow_change=self.allow_change
            )
            self._show(record_draft(self.dependencies, request))

    def _show(self, name: str) -> None:
        state = plan_state(self.dependencies, self._plan(name))
        self.plan_id = state.report.run_id
        self._print(f"plan {self.plan_id}: {state.report.status}", "bold")
        for line in plan_lines(state.report.plan):
            self._print(f"  {line}")
        if state.missing_grants:
            self._print(f":run grants {', '.join(sorted(state.missing_grants))}", "yellow")
        self._print_pending()

    def _run(self, name: str) -> None:
        self.plan_id = self._plan(name)
        before = self.dependencies.log.last_number()
        missing = plan_state(self.dependencies, self.plan_id).missing_grants
        agree_to_plan(self.dependencies, self.plan_id, missing)
        self._watch(start_background_plan(self.settings, self.plan_id), before)

    def _decide(self, status: ApprovalStatus, words: str) -> None:
        name, _, reason = words.partition(" ")
        name = name or self._only_pending()
        before = self.dependencies.log.last_number()
        approvals = self.dependencies.approvals
        decided = approvals.decide(name, status, by=user_name(), reason=reason)
        after = resume_in_background(self.dependencies, self.settings, decided)
        if isinstance(after, str):
            line = after_decision_line(decided, after, self.settings)
            self._print(f"{decided.id}: {decided.status}; {line}")
            return
        self.plan_id = decided.run_id
        self._watch(after, before)

    def _events(self, words: str) -> None:
        if words and not words.isdigit():
            raise OptionInvalid(f":events takes a number, not {words!r}")
        for event in self.dependencies.log.events(limit=int(words or 20)):
            self._print(event_line(event))

    def _watch(self, started: BackgroundPlan, last_number: int) -> None:
        """Print the plan's events until it has reported or its process has ended."""
        ended = False
        while not ended:
            # Read before the events: the process may write its last events in between.
            ended = started.has_ended
            events = self.dependencies.log.events_after(last_number, run_id=self.plan_id)
            for number, event in events:
                last_number = number
                self._print(event_line(event))
                ended = ended or event.kind == "report"
            sleep(POLL_S)
        report = plan_state(self.dependencies, self.plan_id).report
        self._print(f"plan {self.plan_id}: {report.status}", "bold")
        if report.status in ("planned", "lost"):
            self._print(f"the plan's process died: see {started.log}", "red")
        self._print_pending()

    def _print_pending(self) -> None:
        for approval in self.dependencies.approvals.list(run_id=self.plan_id, pending=True):
            for line in approval_lines(approval):
                self._print(line, "yellow")

    def _only_pending(self) -> str:
        pending = self.dependencies.approvals.list(run_id=self.plan_id or None, pending=True)
        if len(pending) != 1:
            raise OptionInvalid(f"{len(pending)} actions are pending: name one of them")
        return pending[0].id

    def _plan(self, name: str) -> str:
        if not (name or self.plan_id):
            raise OptionInvalid("there is no plan yet: type a prompt")
        return name or self.plan_id

    def _print_prompt(self) -> None:
        if self.console.is_terminal:
            self.console.print(_PROMPT, end="", style="bold")

    def _print(self, text: str, style: str = "") -> None:
        self.console.print(strip_control_characters(text), style=style)


def event_line(event: Event) -> str:
    """Return one line with the time, run, kind and content of an event."""
    delta = plan_delta(event)
    text = _delta_text(delta) if delta else dumps(plain_json(event.body), ensure_ascii=False)
    if not delta and len(text) > _MAX_EVENT_CHARACTERS:
        text = f"{text[:_MAX_EVENT_CHARACTERS]}…"
    return f"{event.at.astimezone():%H:%M:%S} {event.run_id} {event.kind:<10} {text}".rstrip()


def approval_lines(approval: Approval) -> list[str]:
    """Return lines with a pending action, the rule, and where the untrusted text came from."""
    return [f"waiting: {approval.id}", *(f"  {line}" for line in full_text(approval))]


def _delta_text(delta: Mapping[str, Json]) -> str:
    step = f"step {delta['step']}: " if "step" in delta else ""
    parts = (delta[name] for name in ("status", "rule", "reason", "error") if name in delta)
    return step + " · ".join(" ".join(str(part).split()) for part in parts if part)
