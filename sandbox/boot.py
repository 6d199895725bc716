"""How the supervisor gets into a container: as the source that its Python is started with."""

import json
from functools import cache
from pathlib import Path

from sandbox import supervisor

_MODULES = ("frames", "tree", "tasks", "users", "launch", "disk", "job", "jobs", "forward", "pump")
_BOOTSTRAP = """
import json, sys, types
for name, source in json.loads(sys.argv[2]):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main(float(sys.argv[1]))
"""


def supervisor_argv(ttl_s: float) -> list[str]:
    """The container's main process: it ends after `ttl_s`, unless the harness says more."""
    python = ["python3", "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP]
    return [*python, str(ttl_s), _sources()]


@cache
def _sources() -> str:
    """The supervisor's modules, each before those that import it."""
    place = Path(supervisor.__file__).parent
    named = [(f"sandbox.supervisor.{m}", (place / f"{m}.py").read_text()) for m in _MODULES]
    return json.dumps(named)
