"""Ten small tasks: a bug in one file, and the commands that a model would find it with.

The commands are quick ones, so that what is measured is the agents and not pytest.
Standard library only: both sides read it.
"""

COUNT = 10
SET_UP = "printf 'OPENS = 9\\nCLOSES = 17\\n' > hours.py"
DONE = "Fixed."


def commands(number: int) -> list[str]:
    """What the model asks for in task `number`, from 0 on."""
    return [
        "ls",
        "cat hours.py",
        f"grep -n OPENS hours.py  # {number}",
        "sed -i s/9/8/ hours.py",
        "python3 -c 'import hours; assert hours.OPENS == 8'",
        "cat hours.py",
    ]
