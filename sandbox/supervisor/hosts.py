"""The only host name that resolves without a network: localhost."""

from __future__ import annotations

import os
from contextlib import suppress

HOSTS = "/etc/hosts"
LOCALHOST = b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
LARGE = 1 << 16
FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK


def write_hosts_file() -> None:
    """Add localhost to /etc/hosts: docker does so only for containers with a network.

    An image whose file belongs to another user keeps it: root here may not write every file.
    """
    with suppress(OSError):
        hosts = os.open(HOSTS, FLAGS, 0o644)
        if b"localhost" not in os.read(hosts, LARGE):
            os.write(hosts, LOCALHOST)
        os.close(hosts)
