"""A package that we did not write, with its own test suite: networkx, some 900 files."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.app import Harness
from tests.support.repositories import commit, git

pytestmark = [pytest.mark.docker, pytest.mark.prefect]

PACKAGE = "networkx==3.6.1"
SHA256 = "26b7c357accc0c8cde558ad486283728b65b6a95d85ee1cd66bafab4c8168509"
FILE = "networkx/algorithms/components/connected.py"
RIGHT = "return len(next(connected_components(G))) == n"
WRONG = "return len(next(connected_components(G))) <= n"
PARTS = ("components", "bipartite", "traversal", "shortest_paths", "operators")
TESTS = " ".join(("python3 -m pytest -q", *(f"networkx/algorithms/{part}" for part in PARTS)))
REPLIES = [
    {"content": "", "tool_calls": [{"function": {"name": "search", "arguments": {
        "pattern": "def is_connected", "path": "networkx"}}}]},
    {"content": "", "tool_calls": [{"function": {"name": "edit_file", "arguments": {
        "path": FILE, "old": WRONG, "new": RIGHT}}}]},
    {"content": "is_connected called every graph connected."},
]  # fmt: skip


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package's source under git, with a bug planted in its second commit."""
    download = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
    argv = (*download, "--no-binary", ":all:", "--dest", str(tmp_path), PACKAGE)
    subprocess.run(argv, check=True)
    [archive] = tmp_path.glob("networkx-*.tar.gz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
    unpack = ("tar", "-xzf", str(archive), "--no-same-owner")
    subprocess.run(unpack, cwd=tmp_path, check=True)
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    git(source, "init", "--quiet", "--initial-branch=main")
    git(source, "add", "--all")
    commit(source, "As released")
    (source / FILE).write_text((source / FILE).read_text().replace(RIGHT, WRONG))
    git(source, "add", "--all")
    commit(source, "Plant a bug")
    return source


def test_fix_tests_mends_a_real_package_with_exactly_the_fix(
    harness: Harness, package: Path, tmp_path: Path, prefect_api: str
) -> None:
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(r) + "\n" for r in REPLIES))
    done = harness(
        *("run", "fix-tests", "--repo", str(package), "--set", f"test={TESTS}", "--json"),
        *("--model", "scripted/replies.jsonl"),
        env={"PREFECT_API_URL": prefect_api},
    )
    report = json.loads(done.stdout)
    assert (done.returncode, report["status"]) == (0, "success"), done.stderr
    assert git(package, "diff", "--stat", "main~1", report["branch"]) == ""
    reproduced = next(node for node in report["nodes"] if node["name"] == "reproduce")
    assert "failed" in reproduced["output"]
