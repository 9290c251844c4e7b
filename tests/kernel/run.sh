#!/usr/bin/env bash
# Suites against a real kernel: run.sh [NAME…], each in a guest of its own under emulation. The binary is
# $HOSTFTL, or that of the last release build. Fails when any suite fails; a suite that this machine
# can't run says why, and is counted.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=boot.sh
source "$here/boot.sh"
names=("$@")
# What is not for every day is run by its name alone.
[ ${#names[@]} -gt 0 ] || for suite in "$here"/suites/*.sh; do
    grep -q '^# extra: ' "$suite" || names+=("$(basename "$suite" .sh)")
done
hostftl=${HOSTFTL:-$("$here/../../scripts/cargo.sh" where)/hostftl}
begin=$SECONDS
guest=

skip() {
    printf 'SKIP kernel %s: %s\n' "$1" "$2" | tee -a "${HOSTFTL_SKIPPED:-/dev/null}"
}

# head SUITE WORD: what a suite says of itself in a line `# WORD: …`.
head_of() {
    sed -n "s/^# $2: //p" "$here/suites/$1.sh" | head -n 1
}

# cuts OUT: while the guest runs, does what the guest asks for: `reset` in /out/cut is a loss of power
# of the guest whose drives keep theirs.
watch_cuts() {
    local out=$1 delay life
    while kill -0 "$guest" 2>/dev/null; do
        if [ -e "$out/cut" ]; then
            delay=$(cat "$out/cut")
            sleep "$delay"
            life=$(cat "$out/life")
            echo $((life + 1)) >"$out/life"
            rm "$out/cut"
            echo system_reset >&8
        fi
        sleep 0.1
    done
}

# one NAME: a suite in a guest; 0, 1 or 77.
one() {
    local name=$1 out code start=$SECONDS arguments=() word
    out=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-kernel.XXXXXX")
    initrd "$cache" "$out/initrd.gz" || { rm -rf "$out"; return 1; }
    if grep -q '^devices()' "$here/suites/$name.sh"; then
        mapfile -t arguments < <(
            # shellcheck disable=SC1090
            out=$out && source <(sed -n '/^devices()/,/^}/p' "$here/suites/$name.sh") && devices
        )
    fi
    printf 'export HOSTFTL=%q SUITES=%q OUT=/out KILLS=%q CUTS=%q\nsource %q\nsource %q\n' \
        "$hostftl" "$here/suites" "${KILLS:-}" "${CUTS:-}" "$here/guest.sh" "$here/suites/$name.sh" \
        >"$out/suite"
    echo 0 >"$out/life"
    # A suite states its time on a quiet machine; a busy one takes several times as long.
    MEMORY=$(head_of "$name" memory) boot "$cache" "$out" $((10 * $(head_of "$name" seconds))) \
        "${arguments[@]}"
    watch_cuts "$out" &
    over
    code=$?
    wait
    case $code in
    0) printf 'ok   kernel %s: %s (%s s)\n' "$name" "$(tail -n 1 "$out/log")" $((SECONDS - start)) ;;
    77) skip "$name" "$(tail -n 1 "$out/log")" && code=0 ;;
    *)
        case $code in
        124) word="not done after its time" ;;
        125) word="the guest died" ;;
        *) word="exit code $code" ;;
        esac
        printf 'FAIL kernel %s: %s\n' "$name" "$word"
        for part in qemu console log; do
            tail -n 40 "$out/$part" 2>/dev/null | tr -d '\r' | sed "s/^/    $part | /"
        done
        ;;
    esac
    [ -n "${KEEP:-}" ] && echo "kept: $out" || rm -rf "$out"
    return $code
}

for name in "${names[@]}"; do
    [ -f "$here/suites/$name.sh" ] || { echo "FAIL kernel: there is no suite $name" >&2 && exit 1; }
done
[ -x "$hostftl" ] || { echo "FAIL kernel: $hostftl is missing; build it with: make build" >&2 && exit 1; }
hostftl=$(realpath "$hostftl")
why=$(mktemp)
cache=$("$here/prepare.sh" 2> >(tee "$why" >&2))
status=$?
reason=$(tail -n 1 "$why")
rm -f "$why"
if [ $status -eq 77 ]; then
    for name in "${names[@]}"; do skip "$name" "$reason"; done
    exit 0
fi
[ $status -eq 0 ] || exit 1
trap '[ -z "$guest" ] || kill "$guest" 2>/dev/null' EXIT
trap 'exit 130' INT TERM
failed=0
for name in "${names[@]}"; do
    one "$name" || failed=1
done
verdict="all passed"
[ $failed -eq 0 ] || verdict=FAILED
echo "kernel: $verdict, $((SECONDS - begin)) s"
exit $failed
