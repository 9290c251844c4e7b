# A volume as /dev/hostftl/NAME: the shipped attach and udev rule, a file system from fstab, a program
# that is killed, a line of QEMU.
# seconds: 400
need nbd-client udevadm
# A guest is a chroot of its first root, where udev does nothing unless it is told to.
export SYSTEMD_IGNORE_CHROOT=1
module nbd nbds_max=4
udevd=$(command -v systemd-udevd || ls /lib/systemd/systemd-udevd /usr/lib/systemd/systemd-udevd 2>/dev/null | head -n 1)
[ -n "$udevd" ] || skip "systemd-udevd is missing (see tests/kernel/prepare.sh)"
packaging=$(dirname "$SUITES")/../../packaging
mkdir -p /run/hostftl /run/udev/rules.d
cp "$packaging"/udev/60-hostftl.rules /run/udev/rules.d/
"$udevd" --daemon
udevadm verify /run/udev/rules.d/60-hostftl.rules 2>/dev/null || udevadm control --reload
attach=$packaging/lib/attach

for name in data other; do
    "$HOSTFTL" create "$name.toml" --device "$name.img" --size 256M --layer log
    "$HOSTFTL" serve "$name.toml" --nbd "unix:/run/hostftl/$name.sock" >"$name.out" 2>&1 &
    until_true 60 grep -qs '^ready ' "$name.out"
    "$attach" "$name"
    [ -b "/dev/hostftl/$name" ] || fail "there is no /dev/hostftl/$name"
done
[ "$(readlink -f /dev/hostftl/data)" != "$(readlink -f /dev/hostftl/other)" ] || fail "two names of one device"
! "$attach" data 2>again.txt || fail "one volume was attached twice"
grep -q 'attached already' again.txt
[ "$(blockdev --getpbsz /dev/hostftl/data)" = 4096 ] || fail "blocks of another size"

mkfs.ext4 -q /dev/hostftl/data
mkdir -p /mnt/data
echo '/dev/hostftl/data /mnt/data ext4 _netdev,nofail,x-systemd.requires=hostftl-nbd@data.service 0 2' >/tmp/fstab
mount -T /tmp/fstab /mnt/data
dd if=/dev/urandom of=/mnt/data/file bs=1M count=16 conv=fsync status=none
before=$(sha256sum </mnt/data/file)
umount /mnt/data
"$attach" -d data
udevadm settle
[ ! -e /dev/hostftl/data ] || fail "the link is there after the device went"
[ -b /dev/hostftl/other ] || fail "the other volume's link went too"
"$attach" data
mount -T /tmp/fstab /mnt/data
[ "$(sha256sum </mnt/data/file)" = "$before" ] || fail "the file is another one"
umount /mnt/data
"$attach" -d data
"$attach" -d other
! "$attach" none 2>none.txt || fail "a volume was attached that nobody serves"
grep -q "nbd-client can't attach /run/hostftl/none.sock" none.txt
[ ! -e /run/hostftl/nbd0.name ] || fail "a name is left over"
echo "/dev/hostftl/NAME comes and goes with attach and udev; ext4 mounted from fstab, its file intact"
