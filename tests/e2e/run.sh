#!/usr/bin/env bash
# Real clients against a served volume: run.sh [NAME…], every script for every layer it is for.
# The binary is $HOSTFTL, or that of the last release build. Fails when any script fails.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(info map doors copy qemu fio clients engine backing trace badinput kill ext4 image members)
layers=${LAYERS:-passthrough hard log}
failed=0
begin=$SECONDS

hostftl=${HOSTFTL:-$(../../scripts/cargo.sh where)/hostftl}
if [ ! -x "$hostftl" ]; then
    echo "FAIL e2e: $hostftl is missing; build it with: make build" >&2
    exit 1
fi
HOSTFTL=$(realpath "$hostftl")
export HOSTFTL

for name in "${names[@]}"; do
    if [ ! -f "$name.sh" ]; then
        echo "FAIL e2e: there is no script $name.sh in tests/e2e" >&2
        failed=$((failed + 1))
        continue
    fi
    # Some are about one layer and choose it themselves.
    of=$layers
    ! grep -q '^begin [a-z]* log$' "$name.sh" || of=log
    for layer in $of; do
        timeout --foreground --kill-after=20 150 bash "$name.sh" "$layer"
        status=$?
        [ $status -ne 130 ] || exit 130
        [ $status -ne 124 ] || echo "FAIL $name $layer: not done after 150 s"
        [ $status -eq 0 ] || failed=$((failed + 1))
    done
done
echo "real clients: $failed failed, $((SECONDS - begin)) s"
[ $failed -eq 0 ]
