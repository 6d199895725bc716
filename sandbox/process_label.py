"""Labels that identify a process beyond the reuse of its pid."""

import os
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


def processor_s(pid: int) -> float:
    """Return the seconds of processor time that a process has used; 0 if it has exited."""
    used = _stat(pid)[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def _machine() -> str:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot_id}/{Path('/proc/self/ns/pid').readlink().name}".replace(":", "")
    except OSError:
        return "unknown"


def _start_time(pid: int) -> str:
    """Return the clock ticks from boot to the start of `pid`; `-` if it has exited."""
    fields = _stat(pid)
    return "-" if not fields or fields[0] == "Z" else fields[19]


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the process state on; none if it has exited."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return stat.rpartition(")")[2].split()
