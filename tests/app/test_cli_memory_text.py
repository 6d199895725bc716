"""What strangers stored, as a terminal and a file get it."""

from pathlib import Path

import pytest
from sqlalchemy import update
from typer.testing import CliRunner

from app.cli.memory import app
from app.terminal.files import write_file
from flows.recall.library import configured_library
from memory.content import parse_changes, playbook_to_json
from memory.database import write_transaction
from memory.tables import entries
from memory.types import Execution, PlaybookContent, PlaybookStep, Reflection

HOSTILE = "rm \x1b[8m-rf\x1b]0;title\x07 \u202eodd\u2066 \x9b1A"


@pytest.fixture(autouse=True)
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")


def said(*argv: str) -> str:
    done = CliRunner().invoke(app, list(argv))
    assert done.exit_code == 0, done
    return done.stdout


def keep() -> str:
    """A draft whose every text works a terminal; its slug."""
    step = PlaybookStep(
        action=HOSTILE, tool="bash", tool_args={"x": HOSTILE}, expected=HOSTILE, fallback=HOSTILE
    )
    content = PlaybookContent(
        title=HOSTILE,
        use_case=HOSTILE,
        process=HOSTILE,
        steps=(step,),
        notes=HOSTILE,
        category=HOSTILE,
        tags=(HOSTILE,),
        status="draft",
    )
    with configured_library() as opened:
        made = opened.create(content, source=f"run {HOSTILE}")
        taught = Reflection(improvements=(f"lesson {HOSTILE}",))
        opened.record_execution(
            Execution(playbook_id=made.id, outcome="failure", reflection=taught)
        )
    return made.slug


def test_control_characters_in_a_playbook_do_not_reach_the_terminal() -> None:
    slug = keep()
    shown = [
        said("show", slug, "--history"),
        said("list"),
        said("stats"),
        said("reflect"),
        said("reflect", slug),
        said("search", "rm", "--context"),
        said("search", "rm", "--explain"),
    ]
    for text in shown:
        assert all(char.isprintable() or char == "\n" for char in text), text
    assert shown[0].count(r"\u202e") == 11  # the same words where they stand, and not left out
    assert 'tool: bash {"x": ' in shown[0]


def test_a_person_edits_what_they_see_and_what_they_leave_stays() -> None:
    slug = keep()
    with configured_library() as opened:
        before = opened.get(slug)
        text = playbook_to_json(before)
        assert all(char.isprintable() or char == "\n" for char in text)
        after = opened.update(slug, parse_changes(text))
    assert (after.title, after.steps, after.tags) == (before.title, before.steps, before.tags)


def test_a_file_that_cannot_be_written_completely_stays_unchanged(tmp_path: Path) -> None:
    file, link = tmp_path / "backup.jsonl", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to(file)
    with pytest.raises(UnicodeEncodeError):
        write_file(link, "half a sign: \ud800")
    assert file.read_text() == "old"
    write_file(link, "new")
    assert (file.read_text(), link.is_symlink(), file.stat().st_mode & 0o777) == (
        "new",
        True,
        0o600,
    )
    assert sorted(tmp_path.iterdir()) == [file, link]


def test_an_export_takes_half_a_sign_that_an_older_store_holds(tmp_path: Path) -> None:
    said("add", "deploy")
    with configured_library() as opened, write_transaction(opened.engine) as connection:
        steps = [{"action": "a", "order": 1, "tool_args": {"x": "\ud800"}}]
        content = {"title": "deploy", "steps": steps}
        connection.execute(update(entries).values(content=content))
    said("export", str(tmp_path / "backup.jsonl"))
    assert "1 unchanged" not in said("import", str(tmp_path / "backup.jsonl"))
