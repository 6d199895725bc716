"""How the supervisor gets into a container: as the source that its Python is started with."""

import re
from base64 import b64encode
from functools import cache
from pathlib import Path
from zlib import compress

from sandbox import supervisor

_BOOTSTRAP = """
import sys
from binascii import a2b_base64
from zlib import decompress

parts = decompress(a2b_base64(sys.argv[2])).decode().split(chr(30))
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
from sandbox.supervisor.event_loop import main
main(float(sys.argv[1]))
"""


def supervisor_argv(ttl_s: float) -> list[str]:
    """The container's main process: it ends after `ttl_s`, unless the harness says more."""
    python = ["python3", "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP]
    return [*python, str(ttl_s), _sources()]


@cache
def _sources() -> str:
    """The supervisor's modules, each after its name; compiled when it is first needed.

    Packed: an engine goes through a container's arguments dozens of times, and keeps them with
    each snapshot, where they are read again whenever images are listed.
    """
    files = sorted(Path(supervisor.__file__).parent.glob("[!_]*.py"))
    named = {f"sandbox.supervisor.{file.stem}": lean(file.read_text()) for file in files}
    modules = {"sandbox": "", "sandbox.supervisor": "", **named}
    whole = chr(30).join(part for module in modules.items() for part in module)
    return b64encode(compress(whole.encode(), 9)).decode()


def lean(source: str) -> str:
    """Without `typing`, a tenth of the start-up, and without what is written for people."""
    source = re.sub(r"^from typing import .*$", "", source, flags=re.MULTILINE)
    return re.sub(r'^( *)""".*?"""$', r'\1""', source, flags=re.MULTILINE | re.DOTALL)
