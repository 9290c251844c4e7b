#!/usr/bin/env bash
# A byte of a log volume rots: a check sees nothing, a check of the data names the range, and once a client
# got an error, the events, the metrics and the status say why.
source "$(dirname "$0")/lib.sh"
begin rot log
need qemu-io jq

# code N COMMAND…: its exit code.
code() {
    local want=$1 got=0
    "${@:2}" >"$dir/out" 2>&1 || got=$?
    cat "$dir/out"
    [ "$got" = "$want" ] || fail "exit code $got instead of $want of: ${*:2}"
}

truncate -s 96M "$dir/d.img"
"$hostftl" create "$dir/vol.toml" --device "$dir/d.img" --layer log:compress=none
serve
qemu-io -f raw -t none -c 'write -P 65 0 64k' -c 'write -P 187 160k 4k' -c flush "$uri"
stop
code 0 "$hostftl" check --data "$dir/vol.toml"
# The block of 0xbb is there once, as it is.
at=$(LC_ALL=C grep -obUaP '\xbb{64}' "$dir/d.img" | LC_ALL=C sed -n "1s/:.*//p")
[ -n "$at" ] || fail "the block is not on the device"
printf x | dd of="$dir/d.img" bs=1 seek="$((at + 9))" conv=notrunc status=none
code 0 "$hostftl" check "$dir/vol.toml"
grep -q sound "$dir/out" || fail "a check that reads no data says more than it knows"
code 3 "$hostftl" check --data "$dir/vol.toml"
grep -q 'DAMAGED' "$dir/out" || fail "the check of the data does not say DAMAGED"
grep -q '4096 bytes at byte 163840' "$dir/out" || fail "the check of the data does not name the range"
serve
qemu-io -f raw -t none -c 'read 160k 4k' "$uri" && fail "the client got no error"
"$hostftl" events "$dir/vol.toml" >"$dir/out"
grep -q '4096 bytes at byte 163840' "$dir/out" || fail "no event names the range"
code 4 "$hostftl" status "$dir/vol.toml"
grep -q 'corrupt, ' "$dir/out" || fail "the status does not say what needs a hand"
qemu-io -f raw -t none -c 'write -P 66 160k 4k' -c 'read -P 66 160k 4k' -c flush "$uri"
stop
code 0 "$hostftl" check --data "$dir/vol.toml"
ok "the range is named by the check of the data, an event and the status; a write ends the error"
