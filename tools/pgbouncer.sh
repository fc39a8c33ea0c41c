#!/bin/sh
# Put PgBouncer and the library that it needs into .venv/pgbouncer for the tests of a pooler, if the machine
# has none. Where the packages cannot be had, those tests are skipped and say so; in CI they fail.
set -eu
. tools/debian.sh

if command -v pgbouncer > /dev/null || test -x .venv/pgbouncer/pgbouncer; then
  exit 0
fi
target=$PWD/.venv/pgbouncer
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

if fetch pgbouncer libc-ares2 libevent-2.1-7; then
  mkdir -p "$target"
  cp -L usr/lib/*/libcares.so.2 usr/lib/*/libevent-2.1.so.7 usr/sbin/pgbouncer "$target"
else
  echo "Going on without PgBouncer: its packages cannot be fetched here."
fi
