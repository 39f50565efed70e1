#!/bin/sh
# Builds rayctl as it was at a commit: earlier.sh COMMIT DIRECTORY
set -eu
commit=${1:?which commit? REV=COMMIT}
mkdir -p "$2"
out=$(cd "$2" && pwd)/rayctl
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
git archive "$commit" | tar -x -C "$sources"
cd "$sources"
CGO_ENABLED=0 go build -trimpath -o "$out" ./cmd/rayctl
