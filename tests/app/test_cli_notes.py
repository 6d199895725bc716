"""`harness notes`, `examples`, `agents` and `runs rate` as a person and a script use them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from contracts.agents import AGENTS
from contracts.errors import HarnessError, OptionInvalid, RunNotFound
from flows.config.settings import load_settings
from flows.recall.library import configured_notebook
from memory.errors import AgentUnknown, EntryInvalid, EntryNotFound, StaleUpdate
from memory.notes.types import NoteContent
from tests.support.agent_calls import OWN_AGENT, own_agent_settings
from tests.support.app import Cli

MARKUP = "<script>alert(1)</script> [bold]x[/bold] \"'; DROP TABLE entries; --"


def data(result: Result) -> Any:
    return json.loads(result.stdout)


def test_a_note_is_added_listed_shown_and_previewed(cli: Cli) -> None:
    made = data(cli("notes", "add", "Never log names", "--type", "constraint",
                    "--company", "acme", "--protected", "--json"))  # fmt: skip
    assert (made["type"], made["status"], made["scope"]["company"]) == (
        "Constraint", "Active", "acme",
    )  # fmt: skip
    assert [one["id"] for one in data(cli("notes", "list", "--company", "acme", "--json"))] == [
        made["id"]
    ]
    assert data(cli("notes", "list", "--status", "Pending", "--json")) == []
    assert "Never log names" in cli("notes", "list").stdout
    assert "for company acme; Protected" in cli("notes", "show", made["id"][:8], "--history").stdout
    given = data(cli("notes", "preview", "log it", "--company", "acme", "--json"))
    assert [one["id"] for one in given["notes"]] == [made["id"]]
    assert "no note or example matches" in cli("notes", "preview", "log it").stdout


def test_control_characters_in_a_note_do_not_reach_the_terminal(cli: Cli) -> None:
    made = data(cli("notes", "add", "beware \x1b]0;title\x07", "--json"))
    shown = cli("notes", "show", made["id"]).stdout
    assert (r"beware \x1b]0;title" in shown, "\x1b" in shown) == (True, False)


@pytest.mark.parametrize("kind", ["notes", "examples"])
def test_a_list_refuses_an_empty_or_unknown_filter(cli: Cli, kind: str) -> None:
    with pytest.raises(RunNotFound, match="'nope'"):
        cli(kind, "list", "--run", "nope", "--json")
    with pytest.raises(AgentUnknown, match="'nope'"):
        cli(kind, "list", "--agent", "nope", "--json")
    for option in ("--run", "--user", "--company"):
        with pytest.raises(OptionInvalid, match=f"{option} is empty"):
            cli(kind, "list", option, "", "--json")
    assert cli(kind, "list", "--user", "ann").stdout == f"no {kind[:-1]} matches\n"
    assert f"`harness {kind} add" in cli(kind, "list").stdout


def test_a_list_refuses_an_unknown_note_type(cli: Cli) -> None:
    with pytest.raises(EntryInvalid, match="no note type 'nope'"):
        cli("notes", "list", "--note-type", "nope")


@pytest.mark.parametrize("name", ["agent", "user", "company"])
def test_an_unset_variable_does_not_make_a_note_apply_to_everyone(cli: Cli, name: str) -> None:
    with pytest.raises(OptionInvalid, match=f"--{name} is empty"):
        cli("notes", "add", "she is ill", f"--{name}", " ")
    with pytest.raises(OptionInvalid, match="is empty"):
        cli("examples", "add", "a", "b", f"--{name}", "")
    assert data(cli("notes", "list", "--json")) == []
    assert "for everyone)" in cli("notes", "add", "a").stdout
    assert "for agent pi, user ann)" in cli(
        "notes", "add", "a", "--agent", "pi", "--user", "ann"
    ).stdout  # fmt: skip


def test_fields_missing_in_a_file_stay_unchanged(cli: Cli, tmp_path: Path) -> None:
    made = data(cli("notes", "add", "she is ill", "--user", "ann", "--company", "acme",
                    "--pending", "--protected", "--json"))  # fmt: skip
    file = tmp_path / "note.json"

    def edited(content: dict[str, object]) -> Any:
        file.write_text(json.dumps(content))
        return data(cli("notes", "edit", made["id"], "--file", str(file), "--json"))

    same = ("status", "protection", "scope", "type")
    after = edited({"text": "she is well"})
    assert after["text"] == "she is well"
    assert {name: after[name] for name in same} == {name: made[name] for name in same}
    after = edited({"type": "Issue", "scope": {"company": None}})
    assert (after["type"], after["note_type"], after["text"]) == ("Issue", "Issue", "she is well")
    assert after["scope"] == {"agent": None, "user": "ann", "company": None}


def test_a_note_is_approved_revoked_and_deleted_with_others(cli: Cli) -> None:
    ids = [data(cli("notes", "add", f"note {n}", "--pending", "--json"))["id"] for n in range(2)]
    assert [one["status"] for one in data(cli("notes", "approve", *ids, "--json"))] == [
        "Active"
    ] * 2
    assert {one["status"] for one in data(cli("notes", "revoke", *ids, "--json"))} == {"Revoked"}
    with pytest.raises(EntryNotFound):
        cli("notes", "rm", ids[0], "nothing-of-this-name")
    assert len(data(cli("notes", "list", "--json"))) == 2
    cli("notes", "rm", *ids)
    assert data(cli("notes", "list", "--json")) == []


def test_a_note_is_edited_by_options_and_undone(cli: Cli) -> None:
    made = data(cli("notes", "add", "a", "--user", "ann", "--json"))
    after = data(cli("notes", "edit", made["id"], "--text", "b", "--type", "Issue",
                     "--user", "", "--agent", "pi", "--provisional", "7", "--json"))  # fmt: skip
    assert (after["text"], after["type"], after["version"]) == ("b", "Issue", 2)
    assert after["scope"] == {"agent": "pi", "user": None, "company": None}
    assert after["expires_at"] is not None
    assert data(cli("notes", "edit", made["id"], "--undo", "--json"))[0]["text"] == "a"


def test_a_stale_edit_is_refused_and_its_text_saved(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = data(cli("notes", "add", "first", "--json"))
    theirs = tmp_path / "theirs.py"
    theirs.write_text(
        "import sys, pathlib\nfrom app.cli.main import command_line\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "path.write_text(path.read_text().replace('first', 'mine'))\n"
        f"command_line('notes')(['notes', 'edit', '{made['id']}', '--text', 'theirs'])\n"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"env PYTHONPATH={Path.cwd()} {_python()} {theirs}")
    with pytest.raises(StaleUpdate, match="at version 2 now"):
        cli("notes", "edit", made["id"])
    assert data(cli("notes", "show", made["id"], "--json"))["text"] == "theirs"
    (kept,) = (load_settings().home / "edits").iterdir()
    assert data(cli("notes", "edit", made["id"], "--file", str(kept), "--json"))["text"] == "mine"


def test_an_expired_note_is_listed_as_over(cli: Cli) -> None:
    with configured_notebook() as book:
        note = book.add(NoteContent(text="a", expires_at=datetime(2026, 1, 1, tzinfo=UTC)))
    for command in (("list",), ("show", note.id)):
        told = cli("notes", *command).stdout
        assert "over" in told
        assert "Active" not in told


def test_a_rejected_text_is_saved(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    made = data(cli("notes", "add", "first", "--json"))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", 'sed -i \'s/first/second/; s/_type.*/_type": "Law"/\'')
    with pytest.raises(EntryInvalid, match="no note type 'Law'"):
        cli("notes", "edit", made["id"])
    (kept,) = (load_settings().home / "edits").iterdir()
    cli("notes", "types", "set", "Law", "--type", "Context", "--priority", "1")
    after = data(cli("notes", "edit", made["id"], "--file", str(kept), "--json"))
    assert (after["text"], after["note_type"]) == ("second", "Law")


def test_a_script_names_the_version_that_it_read(cli: Cli) -> None:
    made = data(cli("notes", "add", "first", "--json"))
    cli("notes", "edit", made["id"], "--text", "second")
    with pytest.raises(StaleUpdate):
        cli("notes", "edit", made["id"], "--text", "late", "--version", "1")


def test_an_example_is_kept_listed_by_score_and_edited(cli: Cli) -> None:
    low = data(cli("examples", "add", "Sales?", "1.2M", "--score", "40", "--json"))
    high = data(cli("examples", "add", "Sales of Q1?", "April to June", "--score", "90", "--json"))
    found = data(cli("examples", "list", "--best", "--json"))
    assert [one["id"] for one in found] == [high["id"], low["id"]]
    after = data(cli("examples", "edit", low["id"], "--score", "0", "--json"))
    assert (after["score"], after["input"]) == (0, "Sales?")
    assert "Asked:" in cli("examples", "preview", high["id"]).stdout


def test_note_types_are_listed_set_and_removed(cli: Cli) -> None:
    names = [one["name"] for one in data(cli("notes", "types", "list", "--json"))]
    assert names == ["Constraint", "Preference", "Issue", "Context", "Example"]
    cli("notes", "types", "set", "Law", "--type", "constraint", "--priority", "300")
    made = data(cli("notes", "add", "a", "--note-type", "law", "--json"))
    assert (made["type"], made["note_type"], made["priority"]) == ("Constraint", "Law", 300)
    cli("notes", "rm", made["id"])
    assert data(cli("notes", "types", "rm", "Law", "--json")) == {"deleted": "Law"}


def test_an_agents_settings_are_shown_and_changed(cli: Cli) -> None:
    assert [one["agent"] for one in data(cli("agents", "list", "--json"))] == sorted(AGENTS)
    after = data(cli("agents", "set", "pi", "--max-notes", "2", "--note-strategy", "recent",
                     "--no-examples", "--json"))  # fmt: skip
    assert (after["max_notes"], after["note_strategy"], after["inject_examples"]) == (
        2, "Recent", False,
    )  # fmt: skip
    assert "2 Recent; examples none" in cli("agents", "show", "pi").stdout


def test_an_agent_of_the_settings_is_listed_and_has_settings(cli: Cli, own_home: Path) -> None:
    (own_home / "harness.toml").write_text(own_agent_settings())
    assert OWN_AGENT in [one["agent"] for one in data(cli("agents", "list", "--json"))]
    assert data(cli("agents", "set", OWN_AGENT, "--no-notes", "--json"))["inject_notes"] is False


def test_entries_of_a_run_are_found_by_the_beginning_of_its_id(cli: Cli) -> None:
    own = load_settings().runs / "abcd1234"
    own.mkdir(parents=True)
    (own / "run.json").write_text("{}")
    cli("notes", "add", "a", "--run", "abcd")
    cli("examples", "add", "a", "b", "--run", "abcd1234")
    for kind in ("notes", "examples"):
        (found,) = data(cli(kind, "list", "--run", "abc", "--json"))
        assert found["source_run"] == "abcd1234"


def test_a_run_is_rated_by_the_beginning_of_its_id(cli: Cli) -> None:
    own = load_settings().runs / "abcd1234"
    own.mkdir(parents=True)
    (own / "run.json").write_text("{}")
    assert data(cli("runs", "rate", "abcd", "95", "--json"))["score"] == 95
    with configured_notebook() as book:
        rated = book.runs.rating("abcd1234")
    assert rated is not None
    assert rated.score == 95
    with pytest.raises(RunNotFound):
        cli("runs", "rate", "ffff", "95")
    with pytest.raises(EntryInvalid, match="out of range"):
        cli("runs", "rate", "abcd", "101")


@pytest.mark.parametrize(
    ("argv", "error", "said"),
    [
        (("notes", "add", "a", "--type", "Rumour"), EntryInvalid, "no type 'Rumour'; there are"),
        (("notes", "add", "a", "--note-type", "Law"), EntryInvalid, "no note type 'Law'"),
        (("notes", "add", "a", "--agent", "smith"), AgentUnknown, "no agent 'smith'"),
        (("notes", "add", "  "), EntryInvalid, "cannot be empty"),
        (("notes", "add", "x" * 4_001), EntryInvalid, "4,001 characters; the limit is 4,000"),
        (("notes", "add", "a", "--user", "u" * 256), EntryInvalid, "256 characters"),
        (("notes", "add", "a", "--user", "a\u202eb"), EntryInvalid, "cannot be printed"),
        (("notes", "add", "a", "--provisional", "1e300"), OptionInvalid, "out of range"),
        (("notes", "list", "--status", "Old"), EntryInvalid, "no status 'Old'"),
        (("notes", "types", "set", "Law", "--priority", "1001"), EntryInvalid, "not from 0"),
        (("notes", "types", "set", "Issue", "--type", "Context"), EntryInvalid, "stays Issue"),
        (("examples", "add", "a", "b", "--score", "101"), EntryInvalid, "out of range"),
        (("examples", "add", "a", "b", "--score", "-1"), EntryInvalid, "out of range"),
        (("examples", "show", "nothing"), EntryNotFound, "harness examples list"),
        (("agents", "show", "smith"), AgentUnknown, ", ".join(sorted(AGENTS))),
        (("agents", "set", "pi", "--max-notes", "21"), EntryInvalid, "from 1 to 20"),
        (("agents", "set", "pi", "--max-examples", "0"), EntryInvalid, "from 1 to 10"),
        (("agents", "set", "pi", "--note-strategy", "Best"), EntryInvalid, "Relevant, Recent, All"),
        (("notes", "preview", "x", "--agent", "smith"), AgentUnknown, "no agent"),
        (("curate",), OptionInvalid, "either a RUN"),
        (("curate", "abcd", "--since", "24h"), OptionInvalid, "either a RUN"),
        (("curate", "--since", "yesterday"), OptionInvalid, "90m, 24h, 7d"),
        (("curate", "ffff"), RunNotFound, "no run 'ffff'"),
    ],
)
def test_bad_input_is_refused_in_one_clear_line(
    cli: Cli, argv: tuple[str, ...], error: type[HarnessError], said: str
) -> None:
    with pytest.raises(error, match=said) as raised:
        cli(*argv)
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)


def test_markup_in_every_field_comes_back_as_it_was_given(cli: Cli) -> None:
    made = data(cli("notes", "add", MARKUP, "--user", MARKUP, "--company", MARKUP, "--json"))
    assert (made["text"], made["scope"]["user"]) == (MARKUP, MARKUP)
    pair = data(cli("examples", "add", MARKUP, MARKUP, "--json"))
    assert (pair["input"], pair["output"]) == (MARKUP, MARKUP)
    assert MARKUP in cli("notes", "show", made["id"]).stdout


def test_a_note_longer_than_a_budget_is_added_with_a_warning(cli: Cli) -> None:
    cli("agents", "set", "pi", "--budget-tokens", "300")
    result = cli("notes", "add", "word " * 500, "--json")
    assert data(result)["status"] == "Active"
    assert "agent pi never gets it" in result.stderr
    preview = data(cli("notes", "preview", "x", "--agent", "pi", "--json"))
    assert preview["notes"] == []
    assert "of 300 tokens" in preview["left_out"][0]["why"]


@pytest.mark.parametrize(
    "document", ["", "[]", '{"text": 3}', '{"text": "a", "colour": "red"}', "{"]
)
def test_an_invalid_note_file_is_refused(cli: Cli, tmp_path: Path, document: str) -> None:
    with configured_notebook() as book:
        kept = book.add(NoteContent(text="a"))
    path = tmp_path / "note.json"
    path.write_text(document)
    with pytest.raises(EntryInvalid, match="not a note"):
        cli("notes", "edit", kept.id, "--file", str(path))


def _python() -> str:
    import sys

    return sys.executable
