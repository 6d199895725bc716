#!/bin/bash
# Ensures that a Docker engine runs: on Debian or Ubuntu as root, installs and starts one if none
# answers. Exits with 3 and one line of advice if it cannot. The argument is any Python.
set -euo pipefail

python=${1:-python3}
socket=/var/run/docker.sock
log=${HARNESS_ENGINE_LOG:-/var/log/harness-dockerd.log}

answers() {
    "$python" - "${DOCKER_HOST:-unix://$socket}" <<'PYTHON'
import socket, sys
from urllib.parse import urlsplit


def reached(url):
    if url.scheme != "unix":
        if not url.hostname:
            raise ValueError("no address")
        return socket.create_connection((url.hostname, url.port or 2375), timeout=3)
    engine = socket.socket(socket.AF_UNIX)
    engine.settimeout(3)
    engine.connect(url.path)
    return engine


try:
    url = urlsplit(sys.argv[1])
    if url.scheme in ("ssh", "npipe"):
        sys.exit(0)  # not checked here: the docker library reports these
    with reached(url) as engine:
        if url.port != 2376:  # TLS needs a key: check only that the port is open
            engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            sys.exit(b" 200 " not in engine.recv(64))
except (OSError, ValueError):  # ValueError: not an address
    sys.exit(1)
PYTHON
}

lives() {
    grep -qsx "$1" /proc/[0-9]*/comm
}

give_up() {
    echo "harness: no Docker engine answers, and $1" >&2
    exit 3
}

install_engine() {
    command -v apt-get > /dev/null || give_up "this is no Debian or Ubuntu: install and start Docker, or set DOCKER_HOST"
    echo "installing docker.io"
    export DEBIAN_FRONTEND=noninteractive
    local apt=(apt-get -qq -o DPkg::Lock::Timeout=300)  # another set-up may be running apt
    "${apt[@]}" update || true  # one broken source must not stop the others
    "${apt[@]}" install -y --no-install-recommends docker.io iptables > /dev/null \
        || give_up "installing docker.io failed: see the lines above"
}

start_engine() {
    echo "starting the Docker engine"
    if [ -d /run/systemd/system ] && systemctl start docker 2> /dev/null; then return; fi
    # A pid file of a killed engine may name another process by now.
    rm -f /var/run/docker.pid
    lives containerd || rm -f /var/run/docker/containerd/containerd.pid
    setsid --fork dockerd >> "$log" 2>&1 < /dev/null
}

wait_for_engine() {
    for _ in $(seq 60); do
        if answers; then return 0; fi
        sleep 0.5
    done
    return 1
}

if answers; then exit 0; fi
[ -z "${DOCKER_HOST:-}" ] || give_up "DOCKER_HOST is $DOCKER_HOST: start that one (such as unix:///path or tcp://host:2375), or unset DOCKER_HOST"
[ "$(uname -s)" = Linux ] || give_up "this is not Linux: start Docker Desktop or another engine"
[ "$(id -u)" = 0 ] || give_up "only root may start one: start Docker (sudo systemctl start docker), or join the group docker"
command -v dockerd > /dev/null || install_engine
for attempt in 1 2 3; do
    lives dockerd || start_engine
    if wait_for_engine; then exit 0; fi
    echo "the Docker engine does not answer yet (attempt $attempt of 3)"
done
give_up "dockerd does not start: see $log"
