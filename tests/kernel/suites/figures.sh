# Figures, for people: a volume of passthrough by ublk and by the kernel's NBD client, and its file itself,
# by turns in one guest. Under emulation a guest is many times slower than a machine, so it is the
# relation that counts. Not part of what runs without a name.
# seconds: 900
# extra: yes
need fio nbd-client jq
module ublk_drv
module nbd nbds_max=2
module loop
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

mkdir -p /dev/shm/b
head -c 96M /dev/urandom >/dev/shm/b/plain.img
for way in ublk nbd; do
    truncate -s 96M "/dev/shm/b/$way.img"
    "$HOSTFTL" create "$way.toml" --device "/dev/shm/b/$way.img" --layer passthrough --json >/dev/null
done
loop=$(losetup -f --show /dev/shm/b/plain.img)
serve_ublk ublk.toml --ack buffer
ublk=$device by_ublk=$server
serve nbd.toml
by_nbd=$server
nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
for device in "$ublk" /dev/nbd0; do dd if=/dev/urandom of="$device" bs=1M count=64 oflag=direct status=none; done
cases="write-qd1 read-qd1 write-qd32 read-qd32 seq"
for round in $(seq "$rounds"); do
    for case in $cases; do
        case $case in
        write-qd1) how="--rw=randwrite --bs=4k --iodepth=1" ;;
        read-qd1) how="--rw=randread --bs=4k --iodepth=1" ;;
        write-qd32) how="--rw=randwrite --bs=4k --iodepth=32" ;;
        read-qd32) how="--rw=randread --bs=4k --iodepth=32" ;;
        seq) how="--rw=write --bs=128k --iodepth=8" ;;
        esac
        # shellcheck disable=SC2086 # options
        {
            one ublk "$case" "$ublk" "$by_ublk" $how
            one nbd "$case" /dev/nbd0 "$by_nbd" $how
            one loop "$case" "$loop" 0 $how
        }
    done
done
echo "medians of $rounds rounds of $seconds s each: 4 KiB requests a second, 128 KiB in MB/s; latency; CPU"
for case in $cases; do
    for way in ublk nbd loop; do
        echo "$case $way: $(middle 1 <"$case.$way") requests/s, $(middle 2 <"$case.$way") MB/s," \
            "$(middle 3 <"$case.$way") µs, server $(middle 4 <"$case.$way") µs CPU a request"
    done
done | tee figures
nbd-client -d /dev/nbd0
kill -TERM "$by_ublk" "$by_nbd"
wait "$by_ublk" "$by_nbd"
u=$(middle 1 <write-qd1.ublk) n=$(middle 1 <write-qd1.nbd)
echo "4 KiB random writes at QD 1: ublk $u/s, NBD $n/s, $((u * 100 / n)) % of it"
