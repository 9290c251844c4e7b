#!/usr/bin/env bash
# A file system image goes in by nbdcopy and comes back whole, over a log array with parity.
source "$(dirname "$0")/lib.sh"
begin image log
need nbdcopy mke2fs e2fsck

for index in 0 1 2 3; do
    devices+=(--device "$dir/d$index")
done
"$hostftl" create "$dir/vol.toml" "${devices[@]}" --size 64M --layer log:parity=yes
truncate -s 96M "$dir/in.img"
mke2fs -q -t ext4 -d "$root/crates" "$dir/in.img"
e2fsck -fn "$dir/in.img" || fail "the image was not sound in the first place"
serve
nbdcopy --flush "$dir/in.img" "$uri"
stop
check
rm "$dir/d1"
serve vol --degraded --wait-devices 0 2>"$dir/serve.err"
nbdcopy "$uri" "$dir/out.img"
stop
cmp -n $((96 << 20)) "$dir/in.img" "$dir/out.img" || fail "the image came back changed"
truncate -s 96M "$dir/out.img"
e2fsck -fn "$dir/out.img" || fail "the file system is damaged"
ok "an ext4 image in, a member lost, the image out, fsck clean"
