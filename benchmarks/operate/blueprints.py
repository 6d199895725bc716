"""A run that does nothing, one that takes ten seconds, and one that is never done."""

from blueprints.dsl import blueprint, deterministic
from nodes.commands import command

nothing = blueprint("nothing", "Nothing", [deterministic("first", "does nothing", command("true"))])
naps = blueprint("naps", "Naps", [deterministic("first", "naps", command("sleep", "10"))])
waits = blueprint(
    "waits", "Waits", [deterministic("first", "waits", command("sleep", "600", timeout_s=900))]
)
