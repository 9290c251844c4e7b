# The commands of README.md that need root, disks and the ublk driver, as typed: a volume on three disks, a
# file system on it, and a disk that dies and is replaced. tests/e2e/readme.sh holds them to README.md.
# seconds: 300
need mkfs.ext4 losetup
module ublk_drv
module loop max_loop=8

mkdir -p /mnt/vol
mkdir bin
ln -s "$HOSTFTL" bin/hostftl
export PATH=$PWD/bin:$PATH
for disk in a b c d; do
    truncate -s 256M "$disk.img"
    [ ! -e "/dev/sd$disk" ] || fail "this guest has a disk /dev/sd$disk"
    ln -s "$(losetup -f --show "$disk.img")" "/dev/sd$disk"
done

hostftl create vol.toml --device /dev/sda --device /dev/sdb --device /dev/sdc --layer log --parity
hostftl serve vol.toml --ublk &
server=$!
until_true 60 test -b /dev/hostftl/vol
mkfs.ext4 /dev/hostftl/vol && mount -o discard /dev/hostftl/vol /mnt/vol
hostftl status vol.toml

head -c 32M /dev/urandom >/mnt/vol/file
sync
before=$(sha256sum </mnt/vol/file)
truncate -s 0 b.img
losetup -c /dev/sdb
echo 3 >/proc/sys/vm/drop_caches
[ "$(sha256sum </mnt/vol/file)" = "$before" ] || fail "the file is damaged without the second disk"
hostftl device replace vol.toml 1 /dev/sdd
hostftl wait vol.toml
hostftl status vol.toml
[ "$(sha256sum </mnt/vol/file)" = "$before" ] || fail "the file is damaged after the replacement"
umount /mnt/vol
stop
hostftl check vol.toml --data
echo "a volume on three disks, a disk replaced, the file unchanged"
