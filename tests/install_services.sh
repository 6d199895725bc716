#!/bin/bash
# Installs what some tests need beside Python, where root has apt: Chromium (without it the set-up
# ends with exit code 3), PostgreSQL, Redis, Podman, gVisor and git-lfs (tests of those are skipped
# without them).
set -uo pipefail

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; }
install() {
    echo "installing $*"
    local apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
    "${apt[@]}" update || true  # one broken source must not stop the others
    DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y "$@" > /dev/null
}
has_browser() {
    command -v chromium-headless-shell chromium chromium-browser google-chrome > /dev/null
}
has_services() { ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 && command -v redis-server > /dev/null; }

if ! has_browser && can_install; then
    install chromium-headless-shell || install chromium
fi
if ! has_browser; then
    echo "harness: the browser tests need Chromium: install the package chromium" >&2
    exit 3
fi
has_engines() { command -v podman > /dev/null && command -v runsc > /dev/null; }

if ! has_services && can_install; then
    install postgresql redis-server || true
fi
if ! has_engines && can_install; then
    install --no-install-recommends podman runsc || true
fi
if ! command -v git-lfs > /dev/null && can_install; then
    install git-lfs || true
fi
