"""This Python as a project finds it: first on the PATH, without the plugins of our own tests."""

import os
import sys
from pathlib import Path


def plain_python(folder: Path) -> str:
    """A PATH whose Python runs pytest without plugins: to load ours takes five times as long."""
    ours = Path(sys.executable).parent
    for name in ("python", "python3"):
        script = folder / name
        script.write_text(
            f'#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec "{ours / name}" "$@"\n'
        )
        script.chmod(0o755)
    return f"{folder}:{ours}:{os.environ['PATH']}"
