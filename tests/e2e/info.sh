#!/usr/bin/env bash
# nbdinfo sees the size, the flags and the block sizes that the server promises.
source "$(dirname "$0")/lib.sh"
begin info "$@"
need nbdinfo jq

create
serve
size=$(nbdinfo --size "$uri")
# A log keeps more back, of so small a device.
[ "$size" -gt $((180 << 20)) ] && [ "$size" -le $((256 << 20)) ] || fail "a size of $size bytes"
[ $((size % 4096)) -eq 0 ] || fail "the size $size is not whole blocks"
for can in connect flush fua trim zero multi-conn; do
    nbdinfo --can "$can" "$uri" || fail "nbdinfo --can $can says no"
done
! nbdinfo --is read-only "$uri" || fail "the export says that it is read-only"

nbdinfo --json "$uri" >"$dir/info.json"
cat "$dir/info.json"
wanted='.protocol == "newstyle-fixed" and (.exports | length == 1) and (.exports[0] |
    ."export-size" == $size and .block_size_minimum == 512 and .block_size_preferred == 4096
    and .block_size_maximum >= 65536)'
jq -e --argjson size "$size" "$wanted" "$dir/info.json" || fail "nbdinfo --json tells another story"
nbdinfo --list --json "$uri" >"$dir/list.json"
jq -e '.exports | length == 1' "$dir/list.json" || fail "not exactly one export is listed"
export_name=$(jq -r '.exports[0]."export-name"' "$dir/list.json")
[ "$(nbdinfo --size "nbd+unix:///$export_name?socket=$sock")" = "$size" ] ||
    fail "the listed name $export_name is not served"
! nbdinfo --size "nbd+unix:///no-such-export?socket=$sock" || fail "an unknown export is served"
[ "$(stat -c %a "$sock")" = 600 ] || fail "the socket has mode $(stat -c %a "$sock")"

"$hostftl" status "$dir/vol.toml" --json >"$dir/status.json"
jq -e . "$dir/status.json" || fail "status --json is no JSON"
stop
check
ok "$size bytes, flags and block sizes as promised"
