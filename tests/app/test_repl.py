"""`harness repl`, talked to line by line."""

import subprocess
from collections.abc import Callable
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from app.repl import Repl
from flows.config.settings import load_settings
from flows.plans.record import record_plan, recorded_plan
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies
from policy.plan.plan_json import parse_plan
from tests.support.app import harness_argv
from tests.support.mailbox import Mailbox
from tests.support.planning import FORM, HARMLESS, STEERED, shop_of

Talk = Callable[..., str]


@pytest.fixture
def talk(own_store: Path, tmp_path: Path) -> Talk:
    """What is said to these lines, by a planner that writes these plans."""

    def said(
        *lines: str,
        plans: tuple[str, ...] = (),
        before: Callable[[PlanDependencies], None] | None = None,
    ) -> str:
        heard = StringIO()
        with contextmanager(shop_of(*plans))() as shop:
            if before:
                before(shop)
            console = Console(file=heard, highlight=False, markup=False, soft_wrap=True)
            Repl(
                dependencies=shop, settings=load_settings(), console=console, repo=str(tmp_path)
            ).loop(lines)  # fmt: skip
        return heard.getvalue()

    return said


def steered(shop: PlanDependencies) -> None:
    """A drafted plan whose mail goes to whoever the form says."""
    request = PlanRequest(prompt="mail it", repo="/", intent=FORM, intent_from="the form")
    record_plan(shop.log, "r1", request, parse_plan(STEERED, prompt="p"), agreed=False)


def test_a_prompt_is_shown_as_a_plan_and_nothing_runs(talk: Talk) -> None:
    said = talk("mail the notes to the team", ":events 1", plans=(HARMLESS,))
    assert "0. send_email(body='up by a third', subject='Q2', to=['team@example.org'])" in said
    assert ":run grants SEND_EMAIL" in said
    assert said.splitlines()[-1].endswith("planned")


def test_a_plan_of_the_talk_may_push_the_protected_files_that_its_command_permits(
    own_store: Path, tmp_path: Path
) -> None:
    with contextmanager(shop_of(HARMLESS))() as shop:
        console = Console(file=StringIO())
        settings, allowed = load_settings(), ("uv.lock",)
        Repl(
            dependencies=shop,
            settings=settings,
            console=console,
            repo=str(tmp_path),
            allow_change=allowed,
        ).loop(["mail the notes to the team"])
        (noted,) = shop.log.events(kind="plan")
        assert recorded_plan(shop.log, noted.run_id, agreed=False)[0].allow_change == allowed


@pytest.mark.prefect
def test_a_run_is_watched_until_it_waits_and_a_denial_ends_it(talk: Talk, mailbox: Mailbox) -> None:
    said = talk(":plan r1", ":run", ":deny", ":quit", ":help", before=steered)
    stopped = said.index("decision   step 0: stopped · C4")
    waits = said.index("waiting: ")
    came = said.index("Where the idea came from: intent:the form")
    denied = said.index("approval   step 0: denied")
    assert stopped < waits < came < denied < said.index("plan r1: failure")
    assert ":quit" not in said
    assert mailbox.mails == []


@pytest.mark.prefect
def test_approved_it_is_done(talk: Talk, mailbox: Mailbox) -> None:
    said = talk(":run r1", ":approve", before=steered)
    assert said.rstrip().endswith("plan r1: success")
    assert [mail.to for mail in mailbox.mails] == [[FORM]]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (":run", "there is no plan yet"),
        (":plan nothing", "no plan runs or ran as 'nothing'"),
        (":approve", "0 actions are pending"),
        (":deny nothing", "no approval has an id that begins with 'nothing'"),
        (":events many", ":events takes a number"),
        (":dance", "no command ':dance'"),
        (":", "no command ':'"),
    ],
)
def test_an_error_is_printed_and_the_session_continues(talk: Talk, line: str, why: str) -> None:
    said = talk(line, ":help")
    assert f"error: {why}" in said
    assert ":approve [A] [REASON]" in said


def test_control_characters_in_a_plan_do_not_reach_the_terminal(talk: Talk) -> None:
    said = talk("mail it", plans=(HARMLESS.replace("Q2", "\\u001b[2JQ2[red]"),))
    assert "\x1b" not in said
    assert "[red]" in said


def test_the_command_reads_lines_from_stdin(own_home: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        harness_argv("repl"),
        cwd=tmp_path,
        input=":help\n:run\n:quit\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert ":plan [PLAN]" in done.stdout
    assert "error: there is no plan yet" in done.stdout
    assert done.stderr == ""
