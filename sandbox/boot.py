"""How the supervisor gets into a container: as the source that its Python is started with."""

import re
from functools import cache
from pathlib import Path

from sandbox import supervisor

_BOOTSTRAP = """
import sys

parts = sys.argv[2].split(chr(30))
sources = dict(zip(parts[::2], parts[1::2]))

class Finder:
    def find_spec(name, path=None, target=None):
        if name in sources:
            return type(sys.__spec__)(name, Finder, is_package=not sources[name])

    def create_module(spec):
        return None

    def exec_module(module):
        exec(compile(sources[module.__name__], module.__name__, "exec"), module.__dict__)

sys.meta_path.insert(0, Finder)
from sandbox.supervisor.pump import main
main(float(sys.argv[1]))
"""


def supervisor_argv(ttl_s: float) -> list[str]:
    """The container's main process: it ends after `ttl_s`, unless the harness says more."""
    python = ["python3", "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP]
    return [*python, str(ttl_s), _sources()]


@cache
def _sources() -> str:
    """The supervisor's modules, each after its name; compiled when it is first needed."""
    files = sorted(Path(supervisor.__file__).parent.glob("[!_]*.py"))
    named = {f"sandbox.supervisor.{file.stem}": _lean(file.read_text()) for file in files}
    modules = {"sandbox": "", "sandbox.supervisor": "", **named}
    return chr(30).join(part for module in modules.items() for part in module)


def _lean(source: str) -> str:
    """Without `typing`, which only a type checker needs: loading it is a tenth of the start-up."""
    return re.sub(r"^from typing import .*$", "", source, flags=re.MULTILINE)
