#!/usr/bin/env bash
# nbdcopy brings an image in and out again, also after a clean stop.
source "$(dirname "$0")/lib.sh"
begin copy "$@"
need nbdcopy

create
head -c 48M /dev/urandom >"$dir/in.img"
# A hole in the middle, an odd number of sectors, and data again at the end.
truncate -s 64M "$dir/in.img"
head -c 1000448 /dev/urandom >>"$dir/in.img"
bytes=$(stat -c %s "$dir/in.img")

serve
nbdcopy --flush "$dir/in.img" "$uri"
nbdcopy "$uri" "$dir/out.img"
cmp -n "$bytes" "$dir/in.img" "$dir/out.img" || fail "the copy differs while being served"
stop
check
serve
nbdcopy --connections=1 --requests=4 "$uri" "$dir/again.img"
cmp -n "$bytes" "$dir/in.img" "$dir/again.img" || fail "the copy differs after a clean stop"
cmp "$dir/out.img" "$dir/again.img" || fail "the rest of the volume changed over a clean stop"
stop
ok "$bytes bytes in, out, and out again after a clean stop"
