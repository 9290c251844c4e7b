# The unit that a drive or the kernel reports decides the superpage, without a timing run: an NVMe drive
# with a granularity of deallocation, and a disk with limits in the kernel. A disk without a volatile
# cache gets no padding.
# seconds: 90
devices() {
    truncate -s 256M "$out/nvme.img" "$out/virtio.img" "$out/through.img"
    printf '%s\n' -drive "file=$out/nvme.img,id=nvme,format=raw,if=none,cache=unsafe,discard=unmap" \
        -device nvme,serial=units,drive=nvme,logical_block_size=4096,physical_block_size=4096,discard_granularity=16384 \
        -drive "file=$out/virtio.img,id=virtio,format=raw,if=none,cache=unsafe" \
        -device virtio-blk-pci,drive=virtio,serial=limits,logical_block_size=512,physical_block_size=4096,min_io_size=65536,opt_io_size=262144 \
        -drive "file=$out/through.img,id=through,format=raw,if=none,cache=unsafe" \
        -device virtio-blk-pci,drive=through,serial=through,write-cache=off
}
need jq sha256sum
module nvme
module virtio_blk
module ublk_drv
until_true 20 test -b /dev/vda
until_true 20 test -b /dev/vdb
until_true 20 test -b /dev/nvme0n1

# untouched DEVICE: fails if the device does not read zeros.
untouched() {
    [ "$(head -c 16M "$1" | tr -d '\0' | wc -c)" -eq 0 ] || fail "$1 was written"
}

# Neither asks for permission nor writes.
"$HOSTFTL" probe /dev/nvme0n1 | tee nvme.txt
grep -q 'superpage 16 KiB (NPDG)' nvme.txt
grep -q 'ashift=14' nvme.txt
"$HOSTFTL" probe /dev/vda --json >vda.json
jq -e '.superpage_bytes == 65536 and .source == "queue/minimum_io_size" and .costs == []' vda.json
jq -e '.hints.ceph | contains("bluestore_min_alloc_size=65536")' vda.json
untouched /dev/nvme0n1
untouched /dev/vda

# superpage DEVICE OPTION…: creates a volume and prints its superpage in bytes.
superpage() {
    rm -f v.toml
    "$HOSTFTL" create v.toml --device "$@" --force --json | tee made.json | jq .superpage_bytes
}
[ "$(superpage /dev/nvme0n1 --layer hard --superpage auto)" -eq 16384 ] || fail "$(cat made.json)"
jq -e '.notes | map(select(contains("superpage 16 KiB (reported by the drive, NPDG)"))) | length == 1' made.json
[ "$(superpage /dev/nvme0n1 --layer hard)" -eq 65536 ] || fail "$(cat made.json)"
[ "$(superpage /dev/vda --layer hard --superpage auto)" -eq 65536 ] || fail "$(cat made.json)"
[ "$(superpage /dev/vda --layer hard)" -eq 262144 ] || fail "$(cat made.json)"
jq -e '.notes | map(select(contains("queue/optimal_io_size"))) | length == 1' made.json
[ "$(superpage /dev/vda --layer hard:superpage=32k)" -eq 32768 ] || fail "$(cat made.json)"

# padding DEVICE: flushes after each of 64 small writes, and prints the bytes of padding.
padding() {
    "$HOSTFTL" create v.toml --device "$1" --layer hard --superpage 64k --force --json >/dev/null
    serve_ublk v.toml
    for block in $(seq 64); do
        dd if=/dev/urandom of="$device" bs=4k count=1 seek=$((block * 37)) oflag=direct,dsync status=none
    done
    "$HOSTFTL" status v.toml --json | jq '.traffic.device_write_bytes.pad'
    stop
    rm -f v.toml
}
[ "$(cat /sys/block/vda/queue/write_cache)" = "write back" ] || fail "vda has no volatile cache"
[ "$(cat /sys/block/vdb/queue/write_cache)" = "write through" ] || fail "vdb has a volatile cache"
rm -f v.toml
[ "$(padding /dev/vda)" -gt 0 ] || fail "no padding on a volatile cache"
[ "$(padding /dev/vdb)" -eq 0 ] || fail "padding without a volatile cache"
echo "superpages of 16 KiB from NPDG, and of 64 and 256 KiB from the limits of the kernel, without timing; no padding without a volatile cache"
