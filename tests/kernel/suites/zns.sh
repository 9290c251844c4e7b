# Volumes on QEMU's NVMe drives with zoned namespaces, which have no conventional zones: superblocks lie
# in zones of their own. Written, killed, recovered; then the guest loses its power in the middle.
# seconds: 420
devices() {
    local layer
    for layer in log pblk rrpc; do
        truncate -s 512M "$out/$layer.img"
        printf '%s\n' -device "nvme,id=$layer,serial=$layer" \
            -drive "file=$out/$layer.img,id=d$layer,format=raw,if=none,cache=unsafe" \
            -device "nvme-ns,drive=d$layer,bus=$layer,nsid=1,zoned=true,zoned.zone_size=8M,zoned.zone_capacity=6M,zoned.max_open=17,zoned.max_active=17,logical_block_size=4096,physical_block_size=4096"
    done
}
need fio nbd-client
module nvme_core multipath=N
module nvme
module nbd nbds_max=2

are_there() {
    [ -b "$(drive log)" ] && [ -b "$(drive pblk)" ] && [ -b "$(drive rrpc)" ]
}
until_true 20 are_there

# on NAME [OPTION…]: the volume of that layer as /dev/nbd0.
on() {
    serve "/out/$1.toml" "${@:2}"
    nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
}

off() {
    nbd-client -d /dev/nbd0
    stop
}

random() {
    fio --name=w --filename=/dev/nbd0 --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite \
        --bs=16k-64k --size=12m --norandommap --randseed=7 --output=fio.out "$@"
}

# exercise LAYER: fills a volume, kills the server, verifies, goes on.
exercise() {
    local layer=$1 conventional
    conventional=$(blkzone report "$(drive "$layer")" | grep -c 'type: 1' || true)
    [ "$conventional" = 0 ] || fail "$layer: $conventional conventional zones"
    "$HOSTFTL" create "/out/$layer.toml" --device "zoned:$(drive "$layer")" --layer "$layer" --force --json
    on "$layer"
    random --io_size=18m --verify=crc32c --verify_backlog=512
    sync /dev/nbd0
    dd if=/dev/nbd0 bs=1M count=12 status=none | sha256sum >before
    kill -KILL "$server"
    wait "$server" || true
    nbd-client -d /dev/nbd0 || true
    on "$layer" --reuse-export-name
    dd if=/dev/nbd0 bs=1M count=12 status=none | sha256sum >after
    cmp before after
    off
    "$HOSTFTL" check "/out/$layer.toml" --data
    # Each start and stop writes marks: more than one zone of them.
    "$HOSTFTL" create "/out/again.toml" --device "zoned:$(drive "$layer")" --layer "$layer" 2>refused.txt &&
        fail "$layer: a member was overwritten without --force"
    grep -q 'a member of a HostFTL volume' refused.txt
    rm "/out/$layer.toml"
    "$HOSTFTL" import "zoned:$(drive "$layer")" --output "/out/$layer.toml"
}

# What was flushed before the power went: 32 MiB of a pattern, and it is there after the start.
before_the_cut() {
    on "$1" --reuse-export-name
    dd if=/dev/urandom of=/dev/nbd0 bs=1M count=4 oflag=direct conv=fsync status=none
    dd if=/dev/nbd0 bs=1M count=4 iflag=direct status=none | sha256sum >"/out/$1.sum"
    nbd-client -d /dev/nbd0
    kill -KILL "$server"
    wait "$server" || true
}

if [ "$LIFE" = 0 ]; then
    for layer in log pblk rrpc; do exercise "$layer"; done
    before_the_cut pblk
    before_the_cut rrpc
    on log --reuse-export-name
    dd if=/dev/urandom of=/dev/nbd0 bs=1M count=4 oflag=direct conv=fsync status=none
    dd if=/dev/nbd0 bs=1M count=4 iflag=direct status=none | sha256sum >/out/log.sum
    sync -f /out/log.sum 2>/dev/null || sync
    cut 1
    # Writes that nobody waits for any more.
    random --offset=4m --time_based --runtime=60
    fail "the power did not go"
fi
for layer in log pblk rrpc; do
    # A drive may have another name now.
    rm "/out/$layer.toml"
    "$HOSTFTL" import "zoned:$(drive "$layer")" --output "/out/$layer.toml"
    on "$layer" --reuse-export-name
    dd if=/dev/nbd0 bs=1M count=4 iflag=direct status=none | sha256sum | cmp - "/out/$layer.sum" ||
        fail "$layer: what was flushed is not there after the power went"
    off
    "$HOSTFTL" check "/out/$layer.toml" --data
done
echo "log, pblk and rrpc on zoned namespaces without conventional zones: kill -9, a loss of power, import"
