#!/usr/bin/env bash
# Real clients against a served volume: run.sh [NAME…], every script for every layer it is for, three
# at a time, because they wait more than they work. The binary is $HOSTFTL, or that of the last release
# build. Fails when any script fails.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(page shadow device live readme package backing kill kept died heal full stops members journal stacked rot consent dump info map medium doors copy qemu fio clients engine trace badinput strangers ext4 image alerts)
layers=${LAYERS:-passthrough hard log}
begin=$SECONDS

hostftl=${HOSTFTL:-$(../../scripts/cargo.sh where)/hostftl}
if [ ! -x "$hostftl" ]; then
    echo "FAIL e2e: $hostftl is missing; build it with: make build" >&2
    exit 1
fi
HOSTFTL=$(realpath "$hostftl")
export HOSTFTL

# one NAME LAYER: runs a script. The limit ends a script that hangs, not one on a slow machine.
one() {
    timeout --foreground --kill-after=20 1800 bash "$1.sh" "$2"
    local status=$?
    [ $status -ne 124 ] || echo "FAIL $1 $2: not done after 1800 s"
    # Of 255 xargs makes an end of everything: that is right for Ctrl-C alone.
    [ $status -ne 130 ] || exit 255
    [ $status -eq 0 ]
}
export -f one

for name in "${names[@]}"; do
    if [ ! -f "$name.sh" ]; then
        echo "FAIL e2e: there is no script $name.sh in tests/e2e" >&2
        exit 1
    fi
done

# all: a line for each run; some scripts are about one layer and choose it themselves.
all() {
    local name layer of
    for name in "${names[@]}"; do
        of=$(sed -n 's/^begin [a-z]* \([a-z]*\)$/\1/p' "$name.sh")
        of=${of:-$layers}
        for layer in $of; do echo "$name $layer"; done
    done
}

all | xargs -P 3 -L 1 bash -c 'one "$@"' one
status=$?
verdict="all passed"
[ $status -eq 0 ] || verdict="FAILED"
echo "real clients: $verdict, $((SECONDS - begin)) s"
[ $status -eq 0 ]
