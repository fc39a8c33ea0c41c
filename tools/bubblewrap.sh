#!/bin/sh
# Put bubblewrap into .venv/bin for the tests of the sandbox that uses it, if the machine has none.
# It needs no root; where the package cannot be had, those tests are skipped and say so.
set -eu

if command -v bwrap > /dev/null || test -x .venv/bin/bwrap; then
  exit 0
fi
target=$PWD/.venv/bin/bwrap
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
if apt-get download -qq bubblewrap > /dev/null 2>&1 && dpkg-deb -x bubblewrap_*.deb .; then
  cp usr/bin/bwrap "$target"
else
  echo "Going on without bubblewrap: its package cannot be fetched here."
fi
