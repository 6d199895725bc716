"""A plan as a deployment: it suspends itself, shows a form, and resumes after the decision."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from prefect import flow_runs
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.config.settings import load_settings
from flows.plans.dependencies import plan_dependencies
from flows.plans.start import resume_flow_run
from flows.plans.state import plan_state
from flows.services.deploy import start_deployment
from tests.support.forks import Fork
from tests.support.here import here
from tests.support.mailbox import Mailbox, mail_server
from tests.support.workers import deploy, work

pytestmark = [pytest.mark.prefect, pytest.mark.docker]

OUT = "other@example.net"


def mail(subject: str) -> dict[str, object]:
    return {
        "op": "send_email",
        "args": {"to": {"$ref": "step0.result"}, "subject": subject, "body": "Hello"},
        "tool_caps": ["SEND_EMAIL"],
        "deps": [0],
    }


PLAN = {
    "steps": [
        {"op": "read_file", "args": {"path": "q2.md"}, "tool_caps": ["READ_FILE"], "deps": []},
        mail("Q2"),
        mail("Q3"),
    ]
}
"""A careless plan: the note itself says who gets the mails."""


@pytest.fixture
def mailbox(own_home: Path, tmp_path: Path) -> Iterator[Mailbox]:
    """Notes, a planner and a mail server, for workers of this home."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "q2.md").write_text(OUT)
    (tmp_path / "plan.jsonl").write_text(json.dumps({"content": json.dumps(PLAN)}) + "\n")
    own_home.mkdir(exist_ok=True)
    with mail_server() as box:
        (own_home / "harness.toml").write_text(
            f'[policy]\nplanner = "scripted/{tmp_path / "plan.jsonl"}"\n'
            f"[policy.mail]\nport = {box.port}\n"
        )
        yield box


class Deployed:
    """One flow run of the deployment, pushed on by a worker that does one thing at a time."""

    def __init__(self, fork: Fork, api: str, notes: Path, *, ask_first: bool = False) -> None:
        self._fork = fork
        self._api = api
        self._notes = notes
        given = {
            "prompt": "send the notes",
            "repo": str(notes),
            "grants": ["SEND_EMAIL"],
            "ask_first": ask_first,
        }
        self.id = start_deployment(api, "run-plan", given)

    def work(self) -> str:
        """Let a worker take it as far as it goes; gives the state's name."""
        return work(self._fork, self._api, self.id, pool="plans", cwd=self._notes.parent)

    def form(self) -> str:
        """What the form shows that waits."""
        keyset = self._run()["state"]["state_details"]["run_input_keyset"]  # type: ignore[index]
        found = here().get(f"{self._api}/flow_runs/{self.id}/input/{keyset['description']}")
        return " ".join(str(found.json()).replace("\\n", " ").split())

    def answer(self, **said: str) -> None:
        """Say this in the fields of each approval that waits, and press the form's button."""
        with plan_dependencies(load_settings()) as shop:
            waiting = shop.approvals.list(run_id=self.id[-8:], pending=True)
        given = {f"{name}_{one.id}": value for one in waiting for name, value in said.items()}
        with temporary_settings({PREFECT_API_URL: self._api}):
            _resume(self.id, given)

    @property
    def state(self) -> str:
        """Its name."""
        return str(self._run()["state"]["name"])  # type: ignore[index]  # JSON of the server's

    def _run(self) -> dict[str, object]:
        found: dict[str, object] = here().get(f"{self._api}/flow_runs/{self.id}").json()
        return found


def _resume(name: str, said: dict[str, str]) -> None:
    flow_runs.resume_flow_run(UUID(name), run_input=said)


@pytest.fixture
def deployed(prefect_api: str, fork: Fork, mailbox: Mailbox, tmp_path: Path) -> Deployed:
    deploy(prefect_api, "run-plan", pool="plans", within=tmp_path)
    return Deployed(fork, prefect_api, tmp_path / "notes")


def test_each_denied_step_waits_in_a_form_with_its_reason(
    deployed: Deployed, mailbox: Mailbox, prefect_api: str
) -> None:
    assert deployed.work() == "Suspended"
    shown = deployed.form()
    assert "1 more after this" in shown
    words = " ".join(shown.split())
    assert "text from repo:notes, which is not trusted, decides 'to'" in words
    assert "repo:notes → step0 read_file q2.md" in words
    assert OUT in shown
    assert mailbox.mails == []
    settings = load_settings()
    with plan_dependencies(settings) as shop, temporary_settings({PREFECT_API_URL: prefect_api}):
        first, second = shop.approvals.list(run_id=deployed.id[-8:], pending=True)
        assert shop.approvals.decide(first.id, "approved", by="ann", reason="I know them")
        assert resume_flow_run(shop, settings, first) == "waits"
        assert (deployed.state, mailbox.mails) == ("Suspended", []), "the other is not decided"
        shop.approvals.decide(second.id, "denied", by="ann")
        assert resume_flow_run(shop, settings, second) == "goes on"
    assert deployed.work() == "Failed", "one step was denied"
    assert [mail.message["subject"] for mail in mailbox.mails] == [first.arguments["subject"]]


ASKS = {
    "steps": [
        {"op": "ask_person", "args": {"question": "Who gets it?"}, "tool_caps": ["ASK_PERSON"]},
        {
            "op": "send_email",
            "args": {"to": {"$ref": "step0.result"}, "subject": "Q2", "body": "Hello"},
            "tool_caps": ["SEND_EMAIL"],
            "deps": [0],
        },
    ]
}


def test_the_answer_to_a_question_has_the_users_authority(
    prefect_api: str, fork: Fork, mailbox: Mailbox, tmp_path: Path
) -> None:
    (tmp_path / "plan.jsonl").write_text(json.dumps({"content": json.dumps(ASKS)}) + "\n")
    deploy(prefect_api, "run-plan", pool="plans", within=tmp_path)
    deployed = Deployed(fork, prefect_api, tmp_path / "notes")
    assert deployed.work() == "Suspended"
    assert "Who gets it?" in deployed.form()
    assert mailbox.mails == []
    deployed.answer(answer="ann@example.org")
    assert deployed.work() == "Completed", "an address that a person gave needs no approval"
    assert [mail.to for mail in mailbox.mails] == [["ann@example.org"]]


def test_a_plan_that_is_refused_before_it_runs_is_cancelled(
    prefect_api: str, fork: Fork, mailbox: Mailbox, tmp_path: Path
) -> None:
    deploy(prefect_api, "run-plan", pool="plans", within=tmp_path)
    deployed = Deployed(fork, prefect_api, tmp_path / "notes", ask_first=True)
    assert deployed.work() == "Suspended"
    with temporary_settings({PREFECT_API_URL: prefect_api}):
        _resume(deployed.id, {"answer": "refuse"})
    assert deployed.work() == "Cancelled"
    with plan_dependencies(load_settings()) as shop:
        refused = plan_state(shop, deployed.id[-8:])
    assert (refused.report.status, refused.agreed) == ("cancelled", False)
    assert mailbox.mails == []
