"""`harness memory` as a person and a script use it."""

import json
import os
from functools import partial
from pathlib import Path

import pytest
from typer.testing import Result

from app.terminal.output import set_up_logging
from contracts.errors import (
    OptionInvalid,
    RunNotFound,
)
from memory.errors import EntryInvalid, EntryNotFound, StaleUpdate, StoreCorrupt
from providers import minilm
from tests.support.app import Cli


@pytest.fixture
def cli(cli: Cli) -> Cli:
    """Runs a command of `harness memory`."""
    return partial(cli, "memory")


def data(result: Result) -> dict[str, object]:
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def rows(result: Result) -> list[dict[str, object]]:
    document = json.loads(result.stdout)
    assert isinstance(document, list)
    return document


@pytest.fixture
def kept(cli: Cli) -> str:
    made = data(
        cli("add", "Deploy to production", "--use-case", "Ship it", "--step", "Run tests",
            "--category", "deployment", "--tag", "go", "--json")
    )  # fmt: skip
    return str(made["id"])


def test_a_playbook_is_added_listed_and_shown(cli: Cli, kept: str) -> None:
    assert [row["id"] for row in rows(cli("list", "--json"))] == [kept]
    assert "deploy-to-production" in cli("list").stdout
    assert rows(cli("list", "--category", "none", "--json")) == []
    shown = cli("show", "deploy-to-production", "--history")
    assert "1. Run tests" in shown.stdout
    assert "version 1" in shown.stdout
    assert data(cli("show", kept, "--json"))["version"] == 1


def test_a_search_explains_and_renders(cli: Cli, kept: str) -> None:
    (found,) = rows(cli("search", "deploying", "--json"))
    assert found["id"] == kept
    assert "words: rank 1" in cli("search", "deploy", "--explain").stdout
    assert "### Untested" in cli("search", "deploy", "--context").stdout
    assert rows(cli("search", "deploy", "--limit", "0", "--json")) == []
    assert "nothing found" in cli("search", "bake bread").stdout


def test_a_search_with_context_is_what_a_run_would_be_shown(
    cli: Cli, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("add", "Deploy again", "--process", "curl evil", "--draft")
    for number in range(2):
        cli("add", f"Deploy {number}")
    assert "deploy-again" in cli("search", "deploy").stdout
    monkeypatch.setenv("HARNESS_MEMORY_LIMIT", "2")
    context = cli("search", "deploy", "--context").stdout
    assert (context.count("[playbook:deploy"), "Deploy again" in context) == (2, False)
    assert cli("search", "deploy", "--context", "--limit", "9").stdout.count("[playbook:dep") == 3


def test_edit_opens_the_editor_and_undo_takes_it_back(
    cli: Cli, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "s/Ship it/Ship it well/" "$1"\n')
    editor.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(editor))
    after = data(cli("edit", kept, "--json"))
    assert (after["use_case"], after["version"]) == ("Ship it well", 2)
    assert data(cli("edit", kept, "--undo", "--json"))["use_case"] == "Ship it"
    assert data(cli("edit", kept, "--undo", "--to", "2", "--json"))["use_case"] == "Ship it well"
    with pytest.raises(OptionInvalid, match="--undo"):
        cli("edit", kept, "--to", "2")
    monkeypatch.setenv("EDITOR", "true")
    assert "unchanged" in cli("edit", kept).stdout
    monkeypatch.setenv("EDITOR", "false")
    with pytest.raises(OptionInvalid, match="set EDITOR"):
        cli("edit", kept)


def test_a_stale_edit_is_refused_and_its_text_saved_in_the_home(
    cli: Cli, kept: str, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"{os.sys.executable} -c 'import sys; from app.cli.memory import app; app()'"  # type: ignore[attr-defined]  # sys
    editor = tmp_path / "editor.sh"
    editor.write_text(f'#!/bin/sh\n{other} edit {kept} --undo\nsed -i "s/Ship/X/" "$1"\n')
    editor.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sed -i s/Ship/Send/")
    cli("edit", kept)
    monkeypatch.setenv("EDITOR", str(editor).replace("X", "X"))
    editor.write_text(editor.read_text().replace("s/Ship/X/", "s/Send/X/"))
    with pytest.raises(StaleUpdate, match="at version 3"):
        cli("edit", kept)
    (own,) = (own_home / "edits").iterdir()
    assert '"X it"' in own.read_text()


def test_rm_deletes_or_archives(cli: Cli, kept: str) -> None:
    cli("rm", kept, "--archive")
    assert rows(cli("list", "--json")) == []
    assert len(rows(cli("list", "--archived", "--json"))) == 1
    assert data(cli("rm", kept, "--json")) == {"deleted": True}
    with pytest.raises(EntryNotFound, match=kept):
        cli("rm", kept, "--json")


def test_record_counts_and_learns_and_stats_tell(cli: Cli, kept: str) -> None:
    after = data(cli("record", kept, "success", "--lesson", "Mind the probe", "--json"))
    assert (after["successes"], after["lessons"]) == (1, ["Mind the probe"])
    cli("record", kept, "failure", "--run", "r1", "--failed", "no tests")
    assert "recorded before" in cli("record", kept, "failure", "--run", "r1").stdout
    again = cli("record", kept, "success", "--run", "r1", "--lesson", "a", "--lesson", "A.")
    assert "deploy-to-production: failure" in again.stdout
    assert "already counts as failure" in again.stderr
    assert "'A.' was not added: the playbook has this lesson" in again.stderr
    stats = data(cli("stats", "--json"))
    assert (stats["playbooks"], stats["executions"]) == (1, 2)
    told = cli("stats").stdout
    assert "too few runs" in told
    assert "got no playbook" in told


def test_reflect_lists_pending_lessons_and_applies_them(cli: Cli, kept: str) -> None:
    from flows.recall.library import configured_library
    from memory.types import Execution, Reflection, StepResult

    said = Reflection(improvements=("Wait",), what_failed=("No probe",))
    with configured_library() as opened:
        opened.record_execution(
            Execution(
                playbook_id=kept,
                run_id="r1",
                outcome="success",
                task="put it online",
                step_results=(StepResult(name="smoke", outcome="failure", output="503"),),
                reflection=said,
            )
        )
    shown = cli("reflect").stdout
    assert "deploy-to-production: Wait (run r1, success: put it online)" in shown
    assert "what failed: No probe (run r1, success: put it online)" in shown
    evidence = rows(cli("reflect", "--json"))[0]
    assert (evidence["task"], evidence["failed_steps"]) == (
        "put it online",
        [{"step": "smoke", "output": "503"}],
    )
    assert data(cli("reflect", kept, "--json")) == {"lessons": ["Wait"]}
    assert "nothing is pending" in cli("reflect").stdout


def test_lessons_of_a_run_are_refused_or_become_a_playbook(cli: Cli) -> None:
    from flows.recall.library import configured_library
    from memory.types import Execution, Reflection

    said = Reflection(improvements=("Build first",), title="Publish a package")
    with configured_library() as opened:
        for run_id in ("r1", "r2"):
            opened.record_execution(Execution(run_id=run_id, outcome="failure", reflection=said))
    assert "new playbook 'Publish a package': Build first (run r1" in cli("reflect").stdout
    with pytest.raises(OptionInvalid, match="--refuse needs"):
        cli("reflect", "--refuse")
    assert "refused 1" in cli("reflect", "--run", "r1", "--refuse").stdout
    assert "publish-a-package learned: Build first" in cli("reflect", "--run", "r2").stdout
    assert data(cli("show", "publish-a-package", "--json"))["lessons"] == ["Build first"]


def test_a_wrong_lesson_is_forgotten_by_its_number(cli: Cli, kept: str) -> None:
    for lesson in ("Mind the probe", "Trust the zeppelin"):
        cli("record", kept, "success", "--lesson", lesson)
    assert "lesson 2: Trust the zeppelin" in cli("show", kept).stdout
    assert rows(cli("search", "zeppelin", "--json"))
    with pytest.raises(OptionInvalid, match=r"has no lesson 3: `harness memory show deploy"):
        cli("forget", kept, "3", "2")
    assert "has forgotten: Trust the zeppelin" in cli("forget", kept, "2").stdout
    assert data(cli("show", kept, "--json"))["lessons"] == ["Mind the probe"]
    assert rows(cli("search", "zeppelin", "--json")) == []


def test_a_playbook_is_edited_by_options_or_a_file(cli: Cli, kept: str, tmp_path: Path) -> None:
    cli("edit", kept, "--title", "Ship it", "--step", "test", "--step", "push", "--tag", "x")
    shown = data(cli("show", kept, "--json"))
    assert (shown["title"], shown["tags"], shown["version"]) == ("Ship it", ["x"], 2)
    assert [step["action"] for step in shown["steps"]] == ["test", "push"]  # type: ignore[attr-defined]  # JSON
    file = tmp_path / "playbook.json"
    file.write_text('{"title": "Ship again"}')
    with pytest.raises(StaleUpdate):
        cli("edit", kept, "--file", str(file), "--version", "1")
    cli("edit", kept, "--file", str(file), "--version", "2")
    assert data(cli("show", kept, "--json"))["title"] == "Ship again"
    with pytest.raises(OptionInvalid, match="give one"):
        cli("edit", kept, "--title", "x", "--undo")


def test_context_says_in_words_that_nothing_is_relevant(cli: Cli, kept: str) -> None:
    assert "nothing relevant" in cli("search", "zebra", "--context").stdout


def test_prune_takes_its_limits_from_the_command_line(cli: Cli, kept: str) -> None:
    assert data(cli("prune", "--json"))["archived"] == []
    dry = data(cli("prune", "--max-age-days", "0", "--dry-run", "--json"))
    assert [row["id"] for row in dry["archived"]] == [kept]  # type: ignore[attr-defined]  # JSON
    assert (
        data(cli("prune", "--max-age-days", "0", "--min-confidence", "0", "--json"))["archived"]
        == []
    )
    assert "archived deploy" in cli("prune", "--max-age-days", "0").stdout


def test_reindex_and_doctor_answer(cli: Cli, kept: str) -> None:
    assert data(cli("reindex", "--json")) == {"playbooks": 1}
    assert all(row["ok"] for row in rows(cli("doctor", "--json")))
    assert "copied to" in cli("doctor", "--back-up").stdout


def test_the_beginning_of_a_run_s_id_names_it(cli: Cli, kept: str, own_home: Path) -> None:
    for run in ("abcd1234", "abce1234"):
        (own_home / "runs" / run).mkdir(parents=True)
        (own_home / "runs" / run / "run.json").touch()
    assert "not known" not in cli("record", kept, "failure", "--run", "abcd1234").stderr
    again = cli("record", kept, "failure", "--run", "abcd")
    assert ("recorded before" in again.stdout, "not known" in again.stderr) == (True, False)
    with pytest.raises(RunNotFound, match="abcd1234, abce1234"):
        cli("record", kept, "success", "--run", "abc")
    assert (
        "'abcx' is not known on this machine"
        in cli("record", kept, "success", "--run", "abcx").stderr
    )


def test_a_text_saved_in_another_encoding_is_kept_in_the_home(
    cli: Cli, kept: str, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'caf\\351' > \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    with pytest.raises(OptionInvalid, match="did not save UTF-8: your text is in"):
        cli("edit", kept)
    assert [path.read_bytes() for path in (own_home / "edits").iterdir()] == [b"caf\xe9"]


def test_export_and_import_round(cli: Cli, kept: str, tmp_path: Path) -> None:
    file = tmp_path / "playbooks.jsonl"
    cli("export", str(file))
    assert data(cli("import", str(file), "--json"))["unchanged"] == ["deploy-to-production"]
    cli("rm", kept)
    assert data(cli("import", str(file), "--json"))["created"] == ["deploy-to-production"]
    assert cli("export").stdout == file.read_text()
    assert cli("export", "-").stdout == file.read_text()
    with pytest.raises(OptionInvalid, match="cannot read"):
        cli("import", str(tmp_path / "none"))
    with pytest.raises(OptionInvalid, match="name one"):
        cli("export", "--json")


def test_odd_line_ends_within_a_text_travel(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "first\u2028second\u2029third\u0085fourth\rfifth\nsixth"
    cli("add", "Rotate keys", "--process", text)
    file = tmp_path / "playbooks.jsonl"
    cli("export", str(file))
    monkeypatch.setenv("HARNESS_MEMORY_DATA", str(tmp_path / "other.db"))
    assert data(cli("import", str(file), "--json"))["created"] == ["rotate-keys"]
    assert data(cli("show", "rotate-keys", "--json"))["process"] == text


def test_bad_input_ends_in_one_named_error(cli: Cli, tmp_path: Path) -> None:
    with pytest.raises(EntryNotFound, match="'gone'"):
        cli("show", "gone")
    with pytest.raises(EntryInvalid, match="needs a title"):
        cli("add", "")
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    with pytest.raises(EntryInvalid, match="JSON"):
        cli("add", "--file", str(bad))
    with pytest.raises(OptionInvalid, match="cannot read"):
        cli("add", "--file", str(tmp_path))
    with pytest.raises(OptionInvalid, match="cannot write"):
        cli("export", str(tmp_path / "none" / "file"))


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_search_or_import_is_bad_input(cli: Cli, tmp_path: Path, text: str) -> None:
    for more in ([], ["--context"], ["--json"]):
        with pytest.raises(OptionInvalid, match="the text to search for is empty"):
            cli("search", text, *more)
    (tmp_path / "empty.jsonl").write_text(text)
    with pytest.raises(OptionInvalid, match="nothing to import"):
        cli("import", str(tmp_path / "empty.jsonl"), "--json")


@pytest.mark.parametrize("option", ["--run", "--lesson", "--failed"])
def test_a_record_with_an_empty_option_counts_nothing(cli: Cli, kept: str, option: str) -> None:
    with pytest.raises(OptionInvalid, match=f"{option} is empty"):
        cli("record", kept, "success", option, "")
    assert data(cli("show", kept, "--json"))["successes"] == 0


def test_a_filter_without_matches_says_so(cli: Cli, kept: str) -> None:
    said = "no playbook has the category 'nope'; categories: deployment\n"
    assert cli("list", "--category", "nope").stdout == said
    assert cli("list", "--category", "deployment", "--tag", "x").stdout == "no playbook matches\n"


def test_an_unavailable_model_is_reported_beside_the_result(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_up_logging(debug=False)
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "local")
    monkeypatch.setattr(minilm, "_model", minilm._model.__wrapped__)  # forgets what it loaded
    monkeypatch.setattr(minilm, "model_folder", lambda: tmp_path)
    kept = cli("add", "rotate keys", "--json")
    assert data(kept)["slug"] == "rotate-keys"
    found = cli("search", "rotate keys")
    assert "rotate-keys" in found.stdout
    assert "note: searching by words only until the model answers: no local" in found.stderr


def test_a_damaged_database_that_a_url_names_is_copied_aside_twice_in_a_second(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bad.db"
    file.write_bytes(b"this is no database at all" * 200)
    monkeypatch.setenv("HARNESS_MEMORY_DATA", f"sqlite:///{file}")
    with pytest.raises(StoreCorrupt, match="--back-up"):
        cli("list")
    copies = {str(data(cli("doctor", "--back-up", "--json"))["copy"]) for _ in range(2)}
    assert len(copies) == 2
    assert all((Path(copy) / "bad.db").read_bytes() == file.read_bytes() for copy in copies)
    monkeypatch.setenv("HARNESS_MEMORY_DATA", "postgresql://me:secret@127.0.0.1:9/none")
    with pytest.raises(OptionInvalid, match="is not a file"):
        cli("doctor", "--back-up")


@pytest.mark.parametrize(
    "argv",
    [
        ("list",),
        ("list", "--archived"),
        ("list", "--category", "deployment"),
        ("search", "deploy go service to kubernetes"),
        ("show", "deploy-to-production"),
        ("stats",),
        ("prune", "--dry-run"),
        ("prune",),
        ("reindex",),
    ],
)
def test_every_row_of_playbookds_command_line_has_its_counterpart(
    cli: Cli, kept: str, argv: tuple[str, ...]
) -> None:
    assert cli(*argv).stdout.strip()
    assert data(cli("show", kept, "--json"))["status"] == "active"
