#!/usr/bin/env bash
# Runs under Miri what it can run: undefined behaviour of unsafe code ends a test there. Miri is part
# of nightly Rust, which is fetched when it is missing; nothing else here needs it.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
rust=${MIRI_TOOLCHAIN:-nightly}
if ! rustup component list --toolchain "$rust" --installed 2>/dev/null | grep -q '^miri'; then
    rustup toolchain install "$rust" --profile minimal -c miri -c rust-src
fi
# Tests that draw need few cases; files of tests are real ones.
export PROPTEST_CASES="${PROPTEST_CASES:-2}" MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}"
cargo "+$rust" miri test -p hostftl-core -p hostftl-nbd-proto --tests
cargo "+$rust" miri test -p hostftl-compute -p hostftl-format -p hostftl-io --lib
