"""A blueprint of ten nodes that do nothing."""

from blueprints.dsl import blueprint, deterministic
from nodes.commands import command

ten_nodes = blueprint(
    "ten-nodes",
    "Ten times nothing",
    [deterministic(f"noop-{n}", "does nothing", command("true")) for n in range(1, 11)],
)
