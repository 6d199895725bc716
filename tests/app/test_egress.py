"""A project whose dependency comes from a package index, through the way out."""

import json
import os
import ssl
from pathlib import Path

import pytest

from tests.support.app import Harness
from tests.support.repositories import commit, git
from tests.support.sandboxes import off_the_internet, pip_hosts

pytestmark = [pytest.mark.docker, pytest.mark.prefect]

TEST = """
import humanize

from answer import answer


def test_the_answer_in_words():
    assert humanize.apnumber(answer()) == "four"
"""
FIX = {"path": "answer.py", "old": "return 5", "new": "return 4"}
REPLIES = [
    {"content": "", "tool_calls": [{"function": {"name": "edit_file", "arguments": FIX}}]},
    {"content": "It is four."},
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that needs `humanize`, with a failing test."""
    place = tmp_path / "project"
    (place / "tests").mkdir(parents=True)
    git(place, "init", "--quiet", "--initial-branch=main")
    (place / "requirements.txt").write_text("humanize==4.13.0\n")
    (place / "answer.py").write_text("def answer():\n    return 5\n")
    (place / "tests" / "test_answer.py").write_text(TEST)
    (place / "pyproject.toml").write_text(
        '[project]\nname = "answer"\nversion = "1"\n[tool.setuptools]\npy-modules = ["answer"]\n'
    )
    git(place, "add", "--all")
    commit(place, "Answer")
    return place


def test_a_dependency_is_installed_from_an_allowed_index(
    harness: Harness, project: Path, own_home: Path, tmp_path: Path, prefect_api: str
) -> None:
    hosts = pip_hosts()
    bundle = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    own_home.mkdir(exist_ok=True)
    (own_home / "harness.toml").write_text(
        f"[sandbox]\negress = {json.dumps(hosts)}\n"
        f"egress_addresses = {json.dumps(off_the_internet(hosts))}\n"
        f"ca_bundle = {json.dumps(bundle)}\n"
    )
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(r) + "\n" for r in REPLIES))
    args = ("run", "fix-tests", "--repo", str(project), "--model", "scripted/replies.jsonl")
    done = harness(*args, "--json", env={"PREFECT_API_URL": prefect_api})
    report = json.loads(done.stdout)
    assert (done.returncode, report["status"]) == (0, "success"), report
    assert git(project, "show", f"{report['branch']}:answer.py").endswith("return 4")
