#!/bin/sh
# Put bubblewrap into .venv/bin for the tests of the sandbox that uses it, if the machine has none.
# It needs no root: package lists and the package go to a directory of its own. Where the package
# cannot be had, those tests are skipped and say so; in CI they fail.
set -eu

if command -v bwrap > /dev/null || test -x .venv/bin/bwrap; then
  exit 0
fi
target=$PWD/.venv/bin/bwrap
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
mkdir -p lists/partial cache/archives/partial

apt() {
  apt-get -qq -o "Dir::State::Lists=$place/lists" -o "Dir::Cache=$place/cache" \
    -o APT::Sandbox::User=root "$@" > /dev/null 2>&1
}

if apt update && apt download bubblewrap && dpkg-deb -x bubblewrap_*.deb .; then
  cp usr/bin/bwrap "$target"
else
  echo "Going on without bubblewrap: its package cannot be fetched here."
fi
