"""Whether the process that made something is still the one with its number."""

from pathlib import Path


def process_label(pid: int) -> str:
    """This process and no later one with its number: boot, pid namespace, pid, start time."""
    return f"{_machine()}:{pid}:{_start_time(pid)}"


def has_exited(label: str) -> bool:
    """True when the process of this label ran here and is gone; False when nobody can tell."""
    return is_local(label) and label != process_label(pid_of(label))


def is_local(label: str) -> bool:
    """True when the process of this label ran here, so that we can tell whether it lives."""
    machine, _, pid = label.rpartition(":")[0].rpartition(":")
    return machine == _machine() and machine != "unknown" and pid.isdigit()


def pid_of(label: str) -> int:
    """The number of the process that a known label names."""
    return int(label.split(":")[-2])


def _machine() -> str:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot_id}/{Path('/proc/self/ns/pid').readlink().name}".replace(":", "")
    except OSError:
        return "unknown"


def _start_time(pid: int) -> str:
    """Clock ticks from boot to the start of `pid`; `-` when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "-"
    state, *rest = stat.rpartition(")")[2].split()
    return "-" if state == "Z" else rest[18]
