#!/usr/bin/env bash
# Block status: nbdinfo and qemu-img see what is mapped, and sparse copies stay sparse.
source "$(dirname "$0")/lib.sh"
begin map "$@"
need nbdinfo nbdcopy qemu-img qemu-io jq

# mapped CONTEXT TYPE: the bytes of the export that are of this type.
mapped() {
    nbdinfo --map="$1" --json "$uri" >"$dir/map.json"
    jq --argjson type "$2" '[.[] | select(.type == $type) | .length] | add // 0' "$dir/map.json"
}

create
serve
size=$(nbdinfo --size "$uri")
nbdinfo --json "$uri" >"$dir/info.json"
cat "$dir/info.json"
jq -e '.exports[0] | .contexts == ["base:allocation", "hostftl:state"] and .can_df and .can_cache
    and .can_fast_zero' "$dir/info.json" || fail "nbdinfo sees no contexts, or not all flags"
jq -e '.structured' "$dir/info.json" || fail "replies are not structured"

qemu-io -f raw -t none -c 'write -P 1 1M 64k' -c 'write -P 2 9M 512' -c 'write -P 3 100M 1M' \
    -c 'discard 100M 512k' -c 'write -z 102M 1M' -c flush "$uri"
data=$(mapped base:allocation 0)
holes=$(mapped base:allocation 3)
state=$(mapped hostftl:state 1)
[ $((data + holes)) -eq "$size" ] || fail "the map of $data and $holes bytes misses some of $size"
[ "$state" -eq "$data" ] || fail "hostftl:state tells $state bytes, base:allocation $data"
if [ "$layer" = passthrough ]; then
    [ "$data" -eq "$size" ] || fail "a layer without a map can't know of holes"
else
    # 64 KiB, a block of qemu's with the 512 bytes, and half a MiB.
    [ "$data" -ge $((65536 + 512 + 524288)) ] && [ "$data" -le $((65536 + 4096 + 524288)) ] ||
        fail "$data bytes are mapped"
    qemu-img map --output=json -f raw "$uri" >"$dir/qemu.json"
    jq -e --argjson data "$data" '[.[] | select(.data) | .length] | add == $data' \
        "$dir/qemu.json" || fail "qemu-img map tells another story"
fi

nbdcopy "$uri" "$dir/sparse.img"
[ "$(stat -c %s "$dir/sparse.img")" -eq "$size" ] || fail "the copy has another size"
[ "$(du -k "$dir/sparse.img" | cut -f1)" -le 4096 ] || fail "the copy is not sparse"
nbdcopy --connections=4 --requests=64 "$uri" "$dir/four.img"
cmp "$dir/sparse.img" "$dir/four.img" || fail "four connections read something else"
qemu-img compare -f raw -F raw "$uri" "$dir/sparse.img" || fail "qemu-img compare: they differ"
qemu-img convert -f raw -O qcow2 "$uri" "$dir/out.qcow2"
qemu-img compare -f raw -F qcow2 "$dir/sparse.img" "$dir/out.qcow2" || fail "qcow2 differs"

# Back in again, over other data.
qemu-io -f raw -t none -c 'write -P 9 0 120M' "$uri" >"$dir/io.out"
nbdcopy --connections=4 --flush "$dir/sparse.img" "$uri"
qemu-img compare -f raw -F raw "$uri" "$dir/sparse.img" || fail "the sparse copy back differs"
[ "$layer" = passthrough ] || [ "$(mapped base:allocation 0)" -lt $((4 << 20)) ] ||
    fail "zeros that were copied back are still mapped"
qemu-img convert -n -f qcow2 -O raw -t none "$dir/out.qcow2" "$uri"
qemu-img compare -f raw -F raw "$uri" "$dir/sparse.img" || fail "the qcow2 copied back differs"
stop
check
ok "$data of $size bytes mapped, sparse in both directions"
