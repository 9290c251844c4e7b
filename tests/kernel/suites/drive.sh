# What NVMe drives tell, on QEMU's: who they are, how they want to be written, health, what their flash
# got; and the whole way from the host's bytes to the flash's in `status`.
# seconds: 400
devices() {
    truncate -s 512M "$out/plain.img" "$out/fdp.img"
    printf '%s\n' -drive "file=$out/plain.img,id=plain,format=raw,if=none,cache=unsafe,discard=unmap" \
        -device nvme,serial=plain,ocp=on,drive=plain,logical_block_size=4096,physical_block_size=4096 \
        -device nvme-subsys,id=sub,nqn=fdp,fdp=on,fdp.runs=16M,fdp.nrg=1,fdp.nruh=8 \
        -device nvme,id=placed,serial=fdp,subsys=sub \
        -drive "file=$out/fdp.img,id=fdp,format=raw,if=none,cache=unsafe,discard=unmap" \
        -device 'nvme-ns,drive=fdp,bus=placed,nsid=1,fdp.ruhs=0;1;2;3;4;5'
}
need jq fio nbd-client
module nvme_core multipath=N
module nvme
module nbd nbds_max=2

are_there() {
    [ -b "$(drive plain)" ] && [ -b "$(drive fdp)" ]
}
until_true 20 are_there
plain=$(drive plain)
fdp=$(drive fdp)

"$HOSTFTL" device inspect "$plain"
"$HOSTFTL" device inspect "$plain" --json >plain.json
jq -e '.controller.serial == "plain" and .namespace.bytes == 536870912 and .namespace.block_bytes == 4096 and
    .namespace.write_grain != null and .smart.celsius > 0 and .smart.used_percent == 0 and
    .ocp.version > 0 and .media_written.source == "OCP C0h" and .fdp == null' plain.json
# nvme-cli reads the same.
nvme smart-log "$plain" -o json >theirs.json
jq -e --slurpfile theirs theirs.json '(.smart.celsius - ($theirs[0].temperature - 273) | fabs) <= 1' plain.json
"$HOSTFTL" device inspect "/dev/$(basename "$fdp" n1 | sed 's/nvme/ng/')n1" | tee fdp.txt
grep -q 'FDP is on: reclaim units of 16 MiB, 8 handles, 1 groups' fdp.txt
grep -q 'placement ids 0, 1, 2, 3, 4, 5' fdp.txt
"$HOSTFTL" device inspect "$fdp" --json | jq -e '.media_written.source == "FDP statistics" and .fdp.statistics != null'
"$HOSTFTL" probe "$plain" --yes | tee probe.txt
grep -q 'the drive reports: writes in 4 KiB (NPWG)' probe.txt

# written DRIVE: what the drive says that its flash got.
written() {
    "$HOSTFTL" device inspect "$1" --json | jq .media_written.bytes
}

# exercise NAME DRIVE: a volume on the drive is written; the last step of its way is what the drive counts.
exercise() {
    local before after
    "$HOSTFTL" create "$1.toml" --device "$2" --layer log --force | tee made.txt
    before=$(written "$2")
    serve "$1.toml"
    nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
    fio --name=w --filename=/dev/nbd0 --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite \
        --bs=4k-64k --size=64m --io_size=96m --randseed=7 --output=fio.out --end_fsync=1
    sleep 2.1
    "$HOSTFTL" status "$1.toml" --long | tee "$1.txt"
    "$HOSTFTL" status "$1.toml" --json >"$1.json"
    nbd-client -d /dev/nbd0
    stop
    after=$(written "$2")
    echo "$1: the drive's counter went up by $((after - before))"
    jq -e --argjson most "$((after - before))" '[.traffic.write_path[] | {(.step): .bytes}] | add |
        .flash > 0 and .flash <= $most and ((.flash - .device_writes) | fabs) <= .device_writes / 100' "$1.json"
    jq -e '.devices[0].drive.celsius > 0' "$1.json"
}
exercise plain "$plain"
exercise fdp "$fdp"
grep -q 'reclaim unit 16 MiB (reported by the drive, FDP)' made.txt
grep -q '^    flash ' fdp.txt
way=$(jq -r '[.traffic.write_path[] | {(.step): .bytes}] | add | "\(.host) B of the host, \(.device_writes) B sent, \(.flash) B of flash"' plain.json)
echo "SMART, OCP C0h and FDP of QEMU's drives are told; $way"
