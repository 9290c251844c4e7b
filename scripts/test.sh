#!/usr/bin/env bash
# Every check, in phases with their times; the first that fails ends it. `make test` runs this.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=scripts/cargo.sh
bin=$($cargo where)
phases=()
begin=$SECONDS
# Tests that this machine can't run add a line here.
HOSTFTL_SKIPPED=$(mktemp)
export HOSTFTL_SKIPPED
trap 'rm -f "$HOSTFTL_SKIPPED"' EXIT

phase() {
    local title=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$title"
    if ! "$@"; then
        printf '\nmake test: FAILED in "%s" after %s s. Again: %s\n' "$title" $((SECONDS - start)) "$*"
        exit 1
    fi
    phases+=("$title $((SECONDS - start)) s")
}

chaos() {
    "$bin/hostftl-chaos" --membership --seeds 0..300000
    "$bin/hostftl-chaos" --seeds "${SEEDS:-0..1000000}" --layer all --time-limit 75 --events-at-least 20
}

phase "setup" scripts/setup.sh
phase "formatting" $cargo fmt --all --check
phase "tidy" $cargo run --release --quiet -p xtask -- tidy
phase "documents" $cargo run --release --quiet -p xtask -- docs
phase "imports" $cargo run --release --quiet -p xtask -- imports
phase "lints" $cargo clippy --release --workspace --all-targets --quiet -- -D warnings
phase "tests" $cargo test --release --workspace --lib --bins --tests --quiet
phase "examples in docs" $cargo test --release --workspace --doc --quiet
phase "real clients" env HOSTFTL="$bin/hostftl" tests/e2e/run.sh
phase "kernel" env HOSTFTL="$bin/hostftl" KILLS=5 tests/kernel/run.sh nbd ublk-kill
phase "python" scripts/wheel.sh test
phase "chaos" chaos
phase "planted bugs" $cargo test --release --workspace --features hostftl-chaos/planted,hostftl-io/planted,hostftl-cli/planted --test planted --quiet -- --nocapture

skips=$(wc -l < "$HOSTFTL_SKIPPED")
printf '\nskipped here: %s\n' "$skips"
sort "$HOSTFTL_SKIPPED" | uniq -c
printf '\nmake test: what was not skipped passed in %s s (' $((SECONDS - begin))
printf '%s' "${phases[0]}"
printf ', %s' "${phases[@]:1}"
printf ')\n'
