# Volumes on null_blk's zoned block devices, which obey the kernel's rules for zones: written over the
# network block device several times, killed, recovered and verified.
# seconds: 240
need fio nbd-client
module null_blk nr_devices=0
module nbd nbds_max=2

# drive NAME CONVENTIONAL: a zoned device in memory, of 4 MiB zones.
drive() {
    local folder=/sys/kernel/config/nullb/$1
    mkdir "$folder"
    echo 1 >"$folder/memory_backed"
    echo 1 >"$folder/zoned"
    echo 4 >"$folder/zone_size"
    echo "$2" >"$folder/zone_nr_conv"
    echo 14 >"$folder/zone_max_active"
    echo 14 >"$folder/zone_max_open"
    echo 4096 >"$folder/blocksize"
    echo 384 >"$folder/size"
    echo 1 >"$folder/power"
}

# exercise LAYER: fills a volume on /dev/LAYER, kills the server, and verifies.
exercise() {
    local layer=$1
    "$HOSTFTL" create "$layer.toml" --device "zoned:/dev/$layer" --layer "$layer" --force --json >made.json
    serve "$layer.toml"
    nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
    fio --name=w --filename=/dev/nbd0 --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite \
        --bs=4k-64k --size=64m --io_size=128m --norandommap --verify=crc32c --verify_backlog=512 \
        --randseed=7 --output=fio.out
    sync /dev/nbd0
    dd if=/dev/nbd0 bs=1M count=64 status=none | sha256sum >before
    kill -KILL "$server"
    wait "$server" || true
    nbd-client -d /dev/nbd0 || true
    serve "$layer.toml" --reuse-export-name
    nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
    dd if=/dev/nbd0 bs=1M count=64 status=none | sha256sum >after
    cmp before after
    nbd-client -d /dev/nbd0
    stop
    "$HOSTFTL" check "$layer.toml" --data
}

for layer in log pblk rrpc; do
    drive "$layer" 4
    exercise "$layer"
    echo 0 >"/sys/kernel/config/nullb/$layer/power"
done
echo "log, pblk and rrpc on zoned block devices of null_blk: verified before and after kill -9"
