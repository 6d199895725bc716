"""`harness events` as a person and a script use it, on the logs of two machines."""

import json
from functools import partial
from pathlib import Path

import pytest

from contracts.entity import Entity, Label
from contracts.errors import OptionInvalid
from flows.audit.event_log import event_log
from policy.errors import EntityNotFound, EventsInvalid
from policy.log.events import Draft
from tests.support.app import Cli


@pytest.fixture
def cli(cli: Cli) -> Cli:
    """Runs a command of `harness events`."""
    return partial(cli, "events")


@pytest.fixture
def happened(own_home: Path) -> tuple[str, str]:
    """A prompt, a page and what was made of both; gives the ids of the page and of that."""
    return write(own_home)


def write(home: Path, words: str = "do it") -> tuple[str, str]:
    tainted = Label(taint=frozenset({"web:example.org"}))
    asked = Entity(content=words, label=Label(), origin="prompt")
    page = Entity(content="\x1b[31mred", label=tainted, origin="page \x1b[31m")
    made = Entity(content="made", label=tainted, origin="node do", sources=(asked.id, page.id))
    (home / "owner").parent.mkdir(exist_ok=True)
    name = home.name
    (home / "owner").write_text(name)
    with event_log(home, name) as log:
        log.append(
            [
                Draft(kind="prompt", run_id="r1", produces=(asked,)),
                Draft(kind="source", run_id="r1", produces=(page,)),
                Draft(kind="node", run_id="r1", body={"node": "do"}, produces=(made,),
                      consumes=(asked.id, page.id)),
            ]
        )  # fmt: skip
    return page.id, made.id


def test_events_are_shown_newest_last(cli: Cli, happened: tuple[str, str]) -> None:
    lines = cli("log").stdout.splitlines()
    assert [line.split()[4] for line in lines] == ["prompt", "source", "node"]
    events = json.loads(cli("log", "--json", "--kind", "node", "--run", "r1").stdout)
    assert [event["produces"] for event in events] == [[happened[1]]]
    assert "no events" in cli("log", "--run", "r1", "--kind", "approval").stdout
    with pytest.raises(OptionInvalid, match="has no run 'none'"):
        cli("log", "--run", "none")
    with pytest.raises(OptionInvalid, match="kinds: prompt"):
        cli("log", "--kind", "nonsense")


def test_a_run_that_waits_and_has_no_events_yet_is_known(cli: Cli, own_home: Path) -> None:
    asked = own_home / "runs" / "r9" / "run.json"
    asked.parent.mkdir(parents=True)
    asked.touch()
    assert "no events" in cli("log", "--run", "r9").stdout


def test_verify_reports_problems_and_fails(
    cli: Cli, happened: tuple[str, str], own_home: Path
) -> None:
    assert json.loads(cli("verify", "--json").stdout)["ok"] is True
    head = json.loads((own_home / "events.head").read_text())["heads"][0]
    assert cli("verify", "--head", head).exit_code == 0
    assert cli("verify", "--head", "0" * 64).exit_code == 1
    (own_home / "events.head").unlink()
    wrong = cli("verify")
    assert wrong.exit_code == 1
    assert "is missing: a truncation would go unnoticed" in wrong.stdout
    assert cli("verify", "--accept").exit_code == 0


def test_taint_shows_the_path_of_each_tag(cli: Cli, happened: tuple[str, str]) -> None:
    page, made = happened
    told = json.loads(cli("taint", made[:10], "--json").stdout)
    assert told["taint"] == ["web:example.org"]
    assert [hop["entity"] for hop in told["ways"]["web:example.org"]] == [page, made]
    shown = cli("taint", page).stdout
    assert "1 entities depend on it" in shown
    assert "\x1b" not in shown
    with pytest.raises(EntityNotFound):
        cli("taint", "none")


def test_logs_of_two_machines_become_one(
    cli: Cli, happened: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = tmp_path / "mine.jsonl", tmp_path / "theirs.jsonl"
    cli("export", str(mine))
    other = tmp_path / "other"
    write(other, "something else")
    monkeypatch.setenv("HARNESS_HOME", str(other))
    cli("export", str(theirs))
    assert json.loads(cli("merge", str(mine), "--json").stdout)["new"] == 3
    there = [event["id"] for event in json.loads(cli("log", "--json").stdout)]
    monkeypatch.undo()
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    assert "3 new events, 0 known events" in cli("merge", str(theirs)).stdout
    assert "0 new events, 3 known events" in cli("merge", str(theirs)).stdout
    assert [event["id"] for event in json.loads(cli("log", "--json").stdout)] == there
    assert cli("verify").exit_code == 0


def test_a_truncated_file_changes_nothing(
    cli: Cli, happened: tuple[str, str], tmp_path: Path, own_home: Path
) -> None:
    file = tmp_path / "log.jsonl"
    cli("export", str(file))
    file.write_bytes(file.read_bytes()[:-30])
    (own_home / "harness.db").unlink()
    (own_home / "events.head").unlink()
    with pytest.raises(EventsInvalid):
        cli("merge", str(file))
    with pytest.raises(OptionInvalid, match="cannot read"):
        cli("merge", str(tmp_path))
    assert "no events" in cli("log").stdout


@pytest.mark.parametrize(("format_", "begins"), [
    ("prov", "{"), ("mermaid", "flowchart TD\n"), ("markdown", "# Run r1"),
    ("viewspec", "{"), ("text", "Run r1\n"),
])  # fmt: skip
def test_a_run_is_exported_in_other_words(
    cli: Cli, happened: tuple[str, str], tmp_path: Path, format_: str, begins: str
) -> None:
    file = tmp_path / "out"
    cli("export", str(file), "--format", format_, "--run", "r1")
    assert file.read_text().startswith(begins)
    assert cli("export", "-", "--format", format_, "--run", "r1").stdout == file.read_text()


@pytest.mark.parametrize("argv", [
    ("--format", "mermaid"), ("--run", "r1"), ("--format", "prov", "--run", "none"),
])  # fmt: skip
def test_contradicting_export_options_are_refused(
    cli: Cli, happened: tuple[str, str], tmp_path: Path, argv: tuple[str, ...]
) -> None:
    with pytest.raises(OptionInvalid):
        cli("export", str(tmp_path / "out"), *argv)
    assert not (tmp_path / "out").exists()


def test_replay_decides_again_and_fails_when_something_differs(
    cli: Cli, happened: tuple[str, str], own_home: Path
) -> None:
    assert "identical" in cli("replay").stdout
    with event_log(own_home, own_home.name) as log:
        log.append([Draft(kind="decision", run_id="r2", body={"policy": "forged/1"})])
    again = cli("replay", "--json")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["same"] is False
    assert cli("replay", "--run", "r1").exit_code == 0


def test_a_run_is_replayed_by_the_beginning_of_its_id(cli: Cli, own_home: Path) -> None:
    own = own_home / "runs" / "abcd1234"
    own.mkdir(parents=True)
    (own / "run.json").write_text("{}")
    (own_home / "owner").write_text(own_home.name)
    with event_log(own_home, own_home.name) as log:
        log.append([Draft(kind="decision", run_id="abcd1234", body={"policy": "forged/1"})])
    assert cli("replay", "--run", "abcd").exit_code == 1
    assert "Run abcd1234" in cli("export", "-", "--format", "markdown", "--run", "abcd").stdout
    with pytest.raises(OptionInvalid, match="has no run 'beef'"):
        cli("replay", "--run", "beef")


def test_entities_are_found_by_words_and_in_the_graph(cli: Cli, happened: tuple[str, str]) -> None:
    page, made = happened
    near = json.loads(cli("find", "--near", page[:12], "--json").stdout)
    assert {one["id"] for one in near} == {page, made}
    way = json.loads(cli("find", "--between", page, made, "--json").stdout)
    assert {one["id"] for one in way} == {page, made}
    assert "\x1b" not in cli("find", "--near", page).stdout
    assert (
        json.loads(cli("find", "do it", "--limit", "1", "--json").stdout)[0]["origin"] == "prompt"
    )
    assert "nothing found" in cli("find", "do something else").stdout
    with pytest.raises(OptionInvalid, match="give one of"):
        cli("find")
    with pytest.raises(EntityNotFound):
        cli("find", "--near", "none")
