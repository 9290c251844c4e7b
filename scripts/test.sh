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
beside_said=$(mktemp)
beside=
trap 'rm -f "$HOSTFTL_SKIPPED" "$beside_said"; [ -z "$beside" ] || kill "$beside" 2>/dev/null' EXIT

phase() {
    local title=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$title"
    "$@" || failed "$title" "$start" "$*"
    phases+=("$title $((SECONDS - start)) s")
}

# failed TITLE BEGIN COMMAND: the end of everything.
failed() {
    printf '\nmake test: FAILED in "%s" after %s s. Again: %s\n' "$1" $((SECONDS - $2)) "$3"
    exit 1
}

# phase_beside TITLE COMMAND…: runs the command beside the next phase, which leaves processors idle.
phase_beside() {
    beside_title=$1 beside_begin=$SECONDS
    shift
    beside_command=$*
    "$@" >"$beside_said" 2>&1 &
    beside=$!
}

# The end of what runs beside.
joined() {
    local status=0
    wait "$beside" || status=$?
    beside=
    printf '\n== %s, beside that\n' "$beside_title"
    cat "$beside_said"
    [ "$status" -eq 0 ] || failed "$beside_title" "$beside_begin" "$beside_command"
}

# The layers are compiled for this alone: in parallel, and the models of drives, of which only unit
# tests are left here, quickly.
planted=("$cargo" test --config profile.release.package.hostftl-layers.codegen-units=16
    --config profile.release.package.hostftl-drives.opt-level=0 --release --workspace
    --features hostftl-chaos/planted --test planted --quiet)

phase "setup" scripts/setup.sh test
phase "formatting" $cargo fmt --all --check
phase "tidy" $cargo run --release --quiet -p xtask -- tidy
phase "documents" $cargo run --release --quiet -p xtask -- docs
phase "imports" $cargo run --release --quiet -p xtask -- imports
phase "prose" $cargo run --release --quiet -p xtask -- prose
phase "lints" $cargo clippy --release --workspace --all-targets --quiet -- -D warnings
# Some tests wait more than they work: more of them go on at once than there are cores.
RUST_TEST_THREADS=$(($(nproc) * 2)) phase "tests" $cargo test --release --workspace --lib --bins --tests --quiet
phase "examples in docs" $cargo test --release --workspace --doc --quiet
phase "membership" "$bin/hostftl-chaos" --membership --seeds 0..300000
phase "chaos" "$bin/hostftl-chaos" --list crates/check/chaos/seeds.txt
phase_beside "kernel" eval "HOSTFTL=$bin/hostftl KILLS=5 tests/kernel/run.sh nbd ublk-kill &&
    nice -n 19 ${planted[*]} --no-run"
# By hand the scripts kill the server ten times each.
phase "real clients" env HOSTFTL="$bin/hostftl" ROUNDS=5 tests/e2e/run.sh
joined
phase_beside "flushes left out" $cargo test --config scripts/quick.toml --release --workspace --features hostftl-io/planted,hostftl-cli/planted --test flushes --quiet -- --nocapture
phase "python" scripts/wheel.sh test
joined
phase "planted bugs" "${planted[@]}" -- --nocapture
# Phases above built the programs with planted bugs; users must find them without.
phase "programs without planted bugs" $cargo test --release --workspace --lib --bins --tests --quiet --no-run

skips=$(wc -l < "$HOSTFTL_SKIPPED")
printf '\nskipped here: %s\n' "$skips"
sort "$HOSTFTL_SKIPPED" | uniq -c
printf '\nmake test: what was not skipped passed in %s s (' $((SECONDS - begin))
printf '%s' "${phases[0]}"
printf ', %s' "${phases[@]:1}"
printf ')\n'
