#!/usr/bin/env bash
# Runs cargo, also when this shell does not know rustup's folder yet; `where` prints the folder of
# the release binaries.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
if [ "${1:-}" = where ]; then
    echo "${CARGO_TARGET_DIR:-$PWD/target}/release"
    exit 0
fi
exec cargo "$@"
