# A volume of `log` reached by the kernel's own NBD client: ext4 on it, files, fsck, trim.
# seconds: 300
need nbd-client mkfs.ext4 e2fsck fstrim
module nbd nbds_max=2

"$HOSTFTL" create v.toml --device disk.img --size 256M --layer log --json >made.json
serve v.toml
nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
grep -q ": *$(blockdev --getsize64 /dev/nbd0)\>" made.json || fail "the device has another size"
mkfs.ext4 -q /dev/nbd0
mkdir -p /mnt/v
mount /dev/nbd0 /mnt/v
cp -r /usr/share/doc/b[a-l]* /mnt/v/
head -c 8M /dev/urandom >/mnt/v/random
(cd /mnt/v && find . -type f -exec sha256sum {} + >/run/t/sums)
sync
umount /mnt/v
nbd-client -d /dev/nbd0
stop
"$HOSTFTL" check v.toml --data
serve v.toml
nbd-client -unix /run/t/nbd.sock /dev/nbd0 -block-size 4096
e2fsck -fn /dev/nbd0
mount /dev/nbd0 /mnt/v
(cd /mnt/v && sha256sum --quiet -c /run/t/sums)
rm /mnt/v/random
fstrim -v /mnt/v
umount /mnt/v
nbd-client -d /dev/nbd0
"$HOSTFTL" status v.toml --json >status.json
grep -q '"host_trim_bytes": *[1-9]' status.json || fail "the file system's trims did not arrive"
stop
echo "ext4 over the kernel's NBD client: $(wc -l <sums) files intact, fsck clean"
