"""Another project whose packages have the names of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.start import PACKAGES


@pytest.mark.parametrize("name", [*PACKAGES, "app.py"])
def test_a_package_of_the_same_name_on_pythonpath_is_left_out_and_named(
    name: str, tmp_path: Path
) -> None:
    theirs = tmp_path / name
    if theirs.suffix:
        theirs.write_text("raise SystemExit('theirs')\n")
    else:
        theirs.mkdir()
        (theirs / "__init__.py").write_text("raise SystemExit('theirs')\n")
    other = tmp_path / "other"
    other.mkdir()
    done = subprocess.run(
        (sys.executable, "-P", "-m", "harness", "blueprints", "list"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{other}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "fix-tests" in done.stdout) == (0, True), done.stderr
    assert f"{str(tmp_path)!r} has {theirs.stem}" in done.stderr
