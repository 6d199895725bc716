"""The talk of `harness repl`: a line is a prompt, or a command that begins with a colon."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import sleep

from rich.console import Console

from app.repl_lines import approval_lines, event_line
from app.terminal.identity import user_name
from contracts.errors import HarnessError, OptionInvalid
from flows.approval_decided import after_decision_line, resume_in_background
from flows.config.settings import Settings
from flows.plans.background import BackgroundPlan, start_background_plan
from flows.plans.report import plan_lines
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies
from flows.plans.state import agree_to_plan, plan_state, record_draft
from nodes.text import strip_control_characters
from policy.types import ApprovalStatus

HELP = """\
a line of words        make a plan of them; nothing is run
:plan [PLAN]           show a plan and how far it came
:run [PLAN]            agree to it, grant it what it needs, and watch it run
:approve [A] [WHY]     allow an action that waits, this once
:deny [A] [WHY]        refuse it
:events [N]            the newest events (20)
:help, :quit
Without a name it is the plan that was shown last, and what waits in it."""

POLL_S = 0.1
_PROMPT = "harness> "


@dataclass(kw_only=True)
class Repl:
    """One talk. `plan` is the run id of the plan that was shown last."""

    shop: PlanDependencies
    settings: Settings
    console: Console
    repo: str
    grants: frozenset[str] = frozenset()
    allow_change: tuple[str, ...] = ()
    plan_id: str = ""
    _commands: Mapping[str, Callable[[str], None]] = field(init=False)

    def __post_init__(self) -> None:
        self._commands = {
            "help": lambda _: self._say(HELP),
            "plan": self._show,
            "run": self._run,
            "approve": lambda words: self._decide("approved", words),
            "deny": lambda words: self._decide("denied", words),
            "events": self._events,
        }

    def loop(self, lines: Iterable[str]) -> None:
        """Answer every line until `:quit` or the last. What cannot be done is said in a line."""
        self._ask()
        for line in lines:
            if line.strip() == ":quit":
                return
            try:
                self._answer(line.strip())
            except HarnessError as error:
                self._say(f"error: {error}", "red")
            except KeyboardInterrupt:
                self._say("not watched any more; a run that was started goes on", "dim")
            self._ask()

    def _answer(self, line: str) -> None:
        if line.startswith(":"):
            name, _, words = line[1:].partition(" ")
            if name not in self._commands:
                raise OptionInvalid(f"no command {f':{name}'!r}: `:help` tells them")
            self._commands[name](words.strip())
        elif line:
            request = PlanRequest(
                prompt=line, repo=self.repo, grants=self.grants, allow_change=self.allow_change
            )
            self._show(record_draft(self.shop, request))

    def _show(self, name: str) -> None:
        state = plan_state(self.shop, self._named(name))
        self.plan_id = state.report.run_id
        self._say(f"plan {self.plan_id}: {state.report.status}", "bold")
        for line in plan_lines(state.report.plan):
            self._say(f"  {line}")
        if state.missing_grants:
            self._say(f":run grants it {', '.join(sorted(state.missing_grants))}", "yellow")
        self._tell_waiting()

    def _run(self, name: str) -> None:
        self.plan_id = self._named(name)
        before = self.shop.log.last_number()
        agree_to_plan(self.shop, self.plan_id, plan_state(self.shop, self.plan_id).missing_grants)
        self._watch(start_background_plan(self.settings, self.plan_id), before)

    def _decide(self, status: ApprovalStatus, words: str) -> None:
        name, _, reason = words.partition(" ")
        if not name:
            name = self._only_one_that_waits()
        before = self.shop.log.last_number()
        decided = self.shop.approvals.decide(name, status, by=user_name(), reason=reason)
        then = resume_in_background(self.shop, self.settings, decided)
        if isinstance(then, str):
            line = after_decision_line(decided, then, self.settings)
            self._say(f"{decided.id}: {decided.status}; {line}")
            return
        self.plan_id = decided.run_id
        self._watch(then, before)

    def _events(self, words: str) -> None:
        if words and not words.isdigit():
            raise OptionInvalid(f":events wants a number, got {words!r}")
        for event in self.shop.log.events(limit=int(words or 20)):
            self._say(event_line(event))

    def _watch(self, started: BackgroundPlan, seen: int) -> None:
        """Show what happens to the plan until its process has said its last word, or is gone."""
        over = False
        while not over:
            over = started.has_ended  # asked first: it may still say something meanwhile
            for number, event in self.shop.log.events_after(seen, run_id=self.plan_id):
                seen = number
                self._say(event_line(event))
                over = over or event.kind == "report"
            sleep(POLL_S)
        report = plan_state(self.shop, self.plan_id).report
        self._say(f"plan {self.plan_id}: {report.status}", "bold")
        if report.status in ("planned", "lost"):
            self._say(f"it broke off: {started.log} says more", "red")
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        for approval in self.shop.approvals.list(run_id=self.plan_id, pending=True):
            for line in approval_lines(approval):
                self._say(line, "yellow")

    def _only_one_that_waits(self) -> str:
        waiting = self.shop.approvals.list(run_id=self.plan_id or None, pending=True)
        if len(waiting) != 1:
            raise OptionInvalid(f"{len(waiting)} actions wait: name the one you mean")
        return waiting[0].id

    def _named(self, name: str) -> str:
        if not (name or self.plan_id):
            raise OptionInvalid("there is no plan yet: type what you want")
        return name or self.plan_id

    def _ask(self) -> None:
        if self.console.is_terminal:
            self.console.print(_PROMPT, end="", style="bold")

    def _say(self, text: str, style: str = "") -> None:
        self.console.print(strip_control_characters(text), style=style)
