# The streams of `log` as placements of QEMU's NVMe drive with flexible data placement: the drive's own
# counters, with placements and without. Its zeroing frees nothing (DLFEAT) and counts as writes, so what is
# collected must not be zeroed.
# seconds: 400
devices() {
    truncate -s 512M "$out/fdp.img"
    printf '%s\n' -device nvme-subsys,id=sub,nqn=fdp,fdp=on,fdp.runs=16M,fdp.nrg=1,fdp.nruh=8 \
        -device nvme,id=placed,serial=fdp,subsys=sub \
        -drive "file=$out/fdp.img,id=fdp,format=raw,if=none,cache=unsafe,discard=unmap" \
        -device 'nvme-ns,drive=fdp,bus=placed,nsid=1,fdp.ruhs=0;1;2;3;4;5'
}
need jq fio nbd-client
module nvme_core multipath=N
module nvme
module nbd nbds_max=2
until_true 20 test -b /dev/nvme0n1
drive=/dev/nvme0n1

# used: how many of the drive's placements have written into their reclaim units.
used() {
    "$HOSTFTL" device inspect $drive --json |
        jq '(.namespace.block_bytes) as $block | [.fdp.placements[] | select(.room_blocks * $block < 16777216)] | length'
}

# exercise NAME: a volume is written several times over, data that does not compress, so that it collects.
# A spare of 46 % of so few segments has room for four streams; the usual one has room for two.
exercise() {
    blkdiscard $drive
    "$HOSTFTL" create "$1.toml" --device $drive --layer log:compress=none:spare=46 --force
    serve "$1.toml"
    nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
    fio --name=w --filename=/dev/nbd0 --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --bs=16k \
        --size=256m --io_size=640m --random_distribution=zoned:90/10:10/90 --norandommap --randseed=7 \
        --output=fio.out --end_fsync=1
    sleep 2.1
    "$HOSTFTL" status "$1.toml" --json >"$1.json"
    nbd-client -d /dev/nbd0
    stop
    jq -e '.traffic.gc_runs > 0' "$1.json" >/dev/null || fail "$1: nothing was collected"
    jq -e '[.traffic.write_path[] | {(.step): .bytes}] | add |
        .flash > 0 and ((.flash - .device_writes) | fabs) <= .device_writes / 100' "$1.json" ||
        fail "$1: $(waf "$1"), $(jq .traffic.device_reset_bytes "$1.json") B of zeros"
}

# waf NAME: bytes of the host, what log sent and what the drive's flash got for each of them.
waf() {
    jq -r '[.traffic.write_path[] | {(.step): .}] | add | "log \(.device_writes.per_host_byte * 1000 | round / 1000), drive \(.flash.per_host_byte * 1000 | round / 1000)"' "$1.json"
}

HOSTFTL_PLACEMENT=on exercise with
with=$(used)
[ "$with" -ge 3 ] || fail "only $with placements were written to"
grep -q 'using 6 placements' with.json || fail "no note of placements"
exercise without
echo "WAF with $with placements in use: $(waf with); without: $(waf without)"
