#!/bin/sh
# Put bubblewrap into .venv/bin for the tests of the sandbox that uses it, if the machine has none.
# Where the package cannot be had, those tests are skipped and say so; in CI they fail.
set -eu
. tools/debian.sh

if command -v bwrap > /dev/null || test -x .venv/bin/bwrap; then
  exit 0
fi
target=$PWD/.venv/bin/bwrap
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

if fetch bubblewrap; then
  cp usr/bin/bwrap "$target"
else
  echo "Going on without bubblewrap: its package cannot be fetched here."
fi
