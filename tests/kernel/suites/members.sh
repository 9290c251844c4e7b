# A log with parity on QEMU's NVMe drives with zoned namespaces: a drive is replaced beside a client and, after a
# kill, while nobody serves, each time by one whose zones hold something; one comes, one leaves, and a spare takes
# the place of one that is left out.
# seconds: 420
devices() {
    local drive
    for drive in a b c d e; do
        truncate -s 256M "$out/$drive.img"
        printf '%s\n' -device "nvme,id=$drive,serial=$drive" \
            -drive "file=$out/$drive.img,id=d$drive,format=raw,if=none,cache=unsafe" \
            -device "nvme-ns,drive=d$drive,bus=$drive,nsid=1,zoned=true,zoned.zone_size=4M,zoned.zone_capacity=3M,zoned.max_open=17,zoned.max_active=17,logical_block_size=4096,physical_block_size=4096"
    done
}
need fio nbd-client
module nvme_core multipath=N
module nvme
module nbd nbds_max=2

zoned() { echo "zoned:$(drive "$1")"; }

are_there() {
    local one
    for one in a b c d e; do [ -b "$(drive "$one")" ] || return 1; done
}
until_true 20 are_there
volume=/out/v.toml

on() {
    serve "$volume" "$@"
    nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
}
off() {
    nbd-client -d /dev/nbd0
    stop
}
# write SEED: 12 MiB of a pattern at random, verified.
write() {
    fio --name=w --filename=/dev/nbd0 --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite \
        --bs=16k-64k --size=12m --randseed="$1" --verify=crc32c --output=fio.out
    sync /dev/nbd0
    dd if=/dev/nbd0 bs=1M count=12 iflag=direct status=none | sha256sum >before
}
holds() {
    dd if=/dev/nbd0 bs=1M count=12 iflag=direct status=none | sha256sum | cmp - before || fail "$1"
}
# heals: all has parity again, and may lose a device.
heals() {
    "$HOSTFTL" wait "$volume"
    "$HOSTFTL" status "$volume" --json | grep -Eq '"failures_tolerated": ?1' || fail "$1: nothing may be lost"
    holds "$1"
}

# Another volume was on the drive that comes: its zones hold something.
"$HOSTFTL" create /out/old.toml --device "$(zoned d)" --layer log
serve /out/old.toml
nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
dd if=/dev/urandom of=/dev/nbd0 bs=1M count=8 oflag=direct conv=fsync status=none
off
"$HOSTFTL" create "$volume" --device "$(zoned a)" --device "$(zoned b)" --device "$(zoned c)" --layer log --parity
on
write 1
"$HOSTFTL" device replace "$volume" "$(zoned b)" "$(zoned d)" 2>refused.txt && fail "a member was overwritten without --force"
grep -q 'a member of a HostFTL volume' refused.txt
"$HOSTFTL" device replace "$volume" "$(zoned b)" "$(zoned d)" --force
heals "replaced beside a client"
write 2
kill -KILL "$server"
wait "$server" || true
nbd-client -d /dev/nbd0 || true
"$HOSTFTL" device replace "$volume" "$(zoned a)" "$(zoned b)" --force
on --reuse-export-name
heals "replaced while nobody served"
"$HOSTFTL" device add "$volume" "$(zoned a)" --force
"$HOSTFTL" device remove "$volume" "$(zoned c)"
heals "one came and one left"
"$HOSTFTL" device spare "$volume" "$(zoned e)"
"$HOSTFTL" device offline "$volume" "$(zoned d)"
heals "a spare took the place of one that was left out"
write 3
off
"$HOSTFTL" check "$volume" --data
on
holds "after a start"
off
echo "zoned namespaces come, leave, are lost and replaced, beside a client and without"
