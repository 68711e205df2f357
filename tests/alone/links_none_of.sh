#!/usr/bin/env bash
# Fails if a program was linked with one of these libraries.
#
#   tests/alone/links_none_of.sh PROGRAM LIBRARY...
set -euo pipefail

needed=$(readelf --dynamic "$1" | grep NEEDED)
shift
for library in "$@"; do
  if grep -i "lib$library" <<<"$needed"; then exit 1; fi
done
