# Figures, for people: a volume of passthrough by ublk and by the kernel's NBD client, and its file itself,
# by turns in one guest. Under emulation a guest is many times slower than a machine, so it is the
# relation that counts. The files are on ext4 on a RAM disk; before that the two kinds of requests at
# QD 1 with files on tmpfs, which this kernel does in threads of its own, and with volumes in memory.
# Not part of what runs without a name.
# seconds: 900
# extra: yes
need fio nbd-client jq mkfs.ext4
module ublk_drv
module nbd nbds_max=2
module loop
module brd rd_nr=1 rd_size=393216
module ext4
rounds=${ROUNDS:-3}
seconds=${SECONDS_EACH:-3}

# cpu PID: user and system time of a process, in microseconds.
cpu() {
    awk -v hz="$(getconf CLK_TCK)" '{ print int(($14 + $15) * 1000000 / hz) }' "/proc/$1/stat"
}

# one WAY CASE DEVICE PID FIO…: appends IOPS, MB/s, µs of mean latency and the server's µs of CPU a request.
one() {
    local way=$1 case=$2 device=$3 pid=$4 before=0 after=0
    shift 4
    [ "$pid" = 0 ] || before=$(cpu "$pid")
    fio --name=f --filename="$device" --direct=1 --ioengine=libaio --size=64m --norandommap --time_based \
        --runtime="$seconds" --output-format=json --output=fio.json "$@" >/dev/null
    [ "$pid" = 0 ] || after=$(cpu "$pid")
    jq -r --argjson cpu $((after - before)) '.jobs[0] | [.read, .write] | map(select(.total_ios > 0))[0]
        | "\(.iops) \(.bw_bytes / 1e6) \(.lat_ns.mean / 1000) \($cpu / .total_ios)"' fio.json >>"$case.$way"
}

# middle COLUMN <FILE
middle() {
    awk -v c="$1" '{ print $c }' | sort -g | awk '{ v[NR] = $1 } END { printf "%.0f", v[int((NR + 1) / 2)] }'
}

# options CASE: what fio is told.
options() {
    case $1 in
    write-qd1) echo "--rw=randwrite --bs=4k --iodepth=1" ;;
    read-qd1) echo "--rw=randread --bs=4k --iodepth=1" ;;
    write-qd32) echo "--rw=randwrite --bs=4k --iodepth=32" ;;
    read-qd32) echo "--rw=randread --bs=4k --iodepth=32" ;;
    seq) echo "--rw=write --bs=128k --iodepth=8" ;;
    esac
}

# compare WHERE CASES: two volumes, whose devices are in the folder WHERE or in `memory`, by both ways and
# by turns; and a file in the folder behind a loop device, which is what both are measured by.
compare() {
    local where=$1 cases=$2 way ways="ublk nbd" loop= ublk by_ublk by_nbd case round
    for way in $ways; do
        device=mem:96M
        [ "$where" = memory ] || {
            device=$where/$way.img
            head -c 96M /dev/zero >"$device"
        }
        rm -f "$way.toml"
        "$HOSTFTL" create "$way.toml" --device "$device" --layer passthrough --force --json >/dev/null
    done
    rm -f ./*.ublk ./*.nbd ./*.loop
    serve_ublk ublk.toml --ack buffer
    ublk=$device by_ublk=$server
    serve nbd.toml
    by_nbd=$server
    nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096 >/dev/null 2>&1
    for device in "$ublk" /dev/nbd0; do
        dd if=/dev/urandom of="$device" bs=1M count=64 oflag=direct status=none
    done
    [ "$where" = memory ] || {
        ways="$ways loop"
        head -c 96M /dev/urandom >"$where/plain.img"
        loop=$(losetup -f --direct-io=on --show "$where/plain.img" || losetup -f --show "$where/plain.img")
    }
    for round in $(seq "$rounds"); do
        for case in $cases; do
            # shellcheck disable=SC2046 # options
            {
                one ublk "$case" "$ublk" "$by_ublk" $(options "$case")
                one nbd "$case" /dev/nbd0 "$by_nbd" $(options "$case")
                [ -z "$loop" ] || one loop "$case" "$loop" 0 $(options "$case")
            }
        done
    done
    echo "$where: medians of $rounds rounds of $seconds s each: 4 KiB requests a second, 128 KiB in MB/s; latency; CPU"
    for case in $cases; do
        for way in $ways; do
            echo "$case $way: $(middle 1 <"$case.$way") requests/s, $(middle 2 <"$case.$way") MB/s," \
                "$(middle 3 <"$case.$way") µs, server $(middle 4 <"$case.$way") µs CPU a request"
        done
    done
    nbd-client -d /dev/nbd0 >/dev/null
    kill -TERM "$by_ublk" "$by_nbd"
    wait "$by_ublk" "$by_nbd"
    [ -z "$loop" ] || losetup -d "$loop"
}

mkdir -p /dev/shm/files /mnt/files
mkfs.ext4 -q /dev/ram0
mount /dev/ram0 /mnt/files
compare memory "write-qd1 read-qd1"
compare /dev/shm/files "write-qd1 read-qd1"
rm -r /dev/shm/files
compare /mnt/files "write-qd1 read-qd1 write-qd32 read-qd32 seq"
u=$(middle 1 <write-qd1.ublk) n=$(middle 1 <write-qd1.nbd)
echo "4 KiB random writes at QD 1, files on ext4: ublk $u/s, NBD $n/s, $((u * 100 / n)) % of it"
