"""Labels that identify a process beyond the reuse of its pid."""

from pathlib import Path


def process_label(pid: int) -> str:
    """Return boot id, pid namespace, pid and start time of a process as one label."""
    return f"{_machine()}:{pid}:{_start_time(pid)}"


def has_exited(label: str) -> bool:
    """Return True if the labelled process ran on this machine and has exited."""
    return is_local(label) and label != process_label(pid_of(label))


def is_local(label: str) -> bool:
    """Return True if the labelled process ran on this machine since its boot."""
    machine, _, pid = label.rpartition(":")[0].rpartition(":")
    return machine == _machine() and machine != "unknown" and pid.isdigit()


def pid_of(label: str) -> int:
    """Return the pid in a label."""
    return int(label.split(":")[-2])


def _machine() -> str:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot_id}/{Path('/proc/self/ns/pid').readlink().name}".replace(":", "")
    except OSError:
        return "unknown"


def _start_time(pid: int) -> str:
    """Return the clock ticks from boot to the start of `pid`; `-` if it has exited."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "-"
    state, *rest = stat.rpartition(")")[2].split()
    return "-" if state == "Z" else rest[18]
