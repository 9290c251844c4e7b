#!/usr/bin/env bash
# Builds the program and runs its demonstration.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
scripts/cargo.sh build --release --quiet --workspace --bin hostftl
exec "$(scripts/cargo.sh where)/hostftl" demo
