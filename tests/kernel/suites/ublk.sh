# A volume of `log` as a block device of ublk: limits, fio with verify, ext4, trims, the end of a server
# whose device is mounted and its next start; a volume that gets a device; 200 devices made and deleted.
# seconds: 900
need fio mkfs.ext4 e2fsck fstrim resize2fs
module ublk_drv ublks_max=64

"$HOSTFTL" create v.toml --device disk.img --size 256M --layer log --json >made.json
serve_ublk v.toml
[ "$device" = "$(readlink -f /dev/hostftl/v)" ] || fail "/dev/hostftl/v does not lead to $device"
grep -q ": *$(blockdev --getsize64 "$device")\>" made.json || fail "the device has another size"
queue=/sys/block/${device#/dev/}/queue
[ "$(cat "$queue/logical_block_size" "$queue/physical_block_size" "$queue/fua" | xargs)" = "512 4096 1" ] ||
    fail "the device has other limits: $(grep . "$queue"/{*block_size,fua})"
[ "$(cat "$queue/write_cache")" = "write back" ] || fail "the device has no volatile cache"
fio --name=w --filename="$device" --direct=1 --ioengine=libaio --iodepth=32 --rw=randwrite \
    --bs=512-256k --size=48m --io_size=96m --norandommap --verify=crc32c --verify_backlog=512 \
    --randseed=7 --output=fio.out
blkdiscard -o 1M -l 8M "$device"
blkdiscard -z -o 9M -l 1M "$device"
cmp -n $((9 << 20)) -i $((1 << 20)):0 "$device" /dev/zero
mkfs.ext4 -q "$device"
mkdir -p /mnt/v
echo "/dev/hostftl/v /mnt/v ext4 defaults,discard,nofail 0 2" >>/etc/fstab
mount /mnt/v
cp -r /usr/share/doc/b[a-d]* /mnt/v/
head -c 4M /dev/urandom >/mnt/v/random
(cd /mnt/v && find . -type f -exec sha256sum {} + >/run/t/sums)

# A mounted device outlives its server, and the next one has it.
stop
"$HOSTFTL" ublk list | grep -q "waits for a server" || fail "the device does not wait"
serve_ublk v.toml
(cd /mnt/v && sha256sum --quiet -c /run/t/sums)
rm /mnt/v/random
fstrim -v /mnt/v
umount /mnt/v
e2fsck -fn "$device"
"$HOSTFTL" status v.toml --json >status.json
grep -q '"host_trim_bytes": *[1-9]' status.json || fail "the file system's trims did not arrive"
stop
[ ! -e "$device" ] || fail "$device is still there"
"$HOSTFTL" check v.toml --data

# Devices come to a volume that is served: the kernel learns its new length, or the server says why not.
truncate -s 96M {a,b}.img
"$HOSTFTL" create g.toml --device a.img --layer log --json >/dev/null
serve_ublk g.toml
before=$(blockdev --getsize64 "$device")
mkfs.ext4 -q "$device"
mount "$device" /mnt/v
head -c 4M /dev/urandom >/mnt/v/random
sum=$(sha256sum </mnt/v/random)
"$HOSTFTL" device add g.toml b.img
length() { [ "$(blockdev --getsize64 "$device")" -gt "$before" ]; }
grown="the kernel has no other length while it is served"
if until_true 5 length; then
    resize2fs "$device"
    grown="$before bytes became $(blockdev --getsize64 "$device") under a mounted file system"
else
    grep -q "while it is served" serve.err || fail "the server does not say that the device stays shorter"
    # The next server takes the shorter device over all the same.
    kill -KILL "$server"
    wait "$server" || true
    serve_ublk g.toml
fi
[ "$(sha256sum </mnt/v/random)" = "$sum" ] || fail "a file is another"
umount /mnt/v
e2fsck -fn "$device"
stop

# 10 volumes of one server, 20 times.
mkdir many
for number in $(seq 10); do
    "$HOSTFTL" create "many/$number.toml" --device mem:4M --layer passthrough --json >/dev/null
done
made=0
for round in $(seq 20); do
    serve_ublk many
    made=$((made + $(ls -d /dev/ublkb* | wc -l)))
    stop
    [ -z "$(ls /sys/class/ublk-char)" ] || fail "round $round left devices: $(ls /sys/class/ublk-char)"
done
[ "$made" = 200 ] || fail "$made devices were made, not 200"
echo "ext4 over ublk: $(wc -l <sums) files intact over the end of a server; $grown; $made devices made and deleted"
