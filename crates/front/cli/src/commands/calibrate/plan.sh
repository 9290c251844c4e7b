#!/bin/sh
# Writes DEVICE {passes} times, each block once per pass in a random order, and records the counters
# of the drive for `hostftl calibrate`. Passes of 128 KiB writes show the garbage collection of the
# drive alone, and {passes} of them are the fewest with which one is left to check the fit.
#
# THE CONTENT OF THE DEVICE IS LOST. Requires root, fio, nvme-cli and blkdiscard. The drive must be
# idle otherwise, and the device must be the only namespace.
set -eu

device={device}
log=${LOG:-drive.log}

if [ "${1:-}" != --erase ]; then
    echo "usage: $0 --erase    (erases $device)" >&2
    exit 2
fi

# FDP statistics of endurance group 1, or the SMART log and the OCP log page C0h.
counters() {
    if [ "$fdp" = 1 ]; then
        nvme fdp stats "$device" -e 1 -o json
    else
        nvme smart-log "$device" -o json
        nvme ocp smart-add-log "$device" -o json
    fi
}

fdp=0
if nvme fdp stats "$device" -e 1 -o json 2>/dev/null | grep -q hbmw; then fdp=1; fi

# The drive must be empty at the start.
blkdiscard "$device"
counters > "$log"

cat > calibrate.fio << EOF
[permutation]
filename=$device
rw=randwrite
bs=128k
iodepth=128
ioengine=io_uring
direct=1
# Each block once per pass, in a new order each pass.
norandommap=0
randrepeat=0
loops={passes}
EOF
fio calibrate.fio &
fio=$!

# A record at least every 1/32 of the capacity: 10 s at 12 GB/s for 3.84 TB.
while kill -0 "$fio" 2>/dev/null; do
    sleep 10
    counters >> "$log"
done
wait "$fio"
counters >> "$log"

echo "hostftl calibrate $log --capacity $(blockdev --getsize64 "$device")"
