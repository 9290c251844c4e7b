# dm-crypt below a volume, and above its block device: files are intact after the server was killed and
# started again under a mounted file system, and nothing of them is readable below.
# seconds: 600
need cryptsetup mkfs.ext4 e2fsck
module ublk_drv
module dm_crypt
module loop

head -c 32 /dev/urandom >key
truncate -s 256M below.img above.img
loop=$(losetup -f --show below.img)
cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 --key-file key --sector-size 4096 \
    "$loop" below
"$HOSTFTL" create below.toml --device /dev/mapper/below --layer log --force --json >/dev/null
"$HOSTFTL" create above.toml --device above.img --layer log --json >/dev/null
mkdir volumes
mv below.toml above.toml volumes/
serve_ublk volumes
cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 --key-file key --sector-size 4096 \
    /dev/hostftl/above above
mkdir -p /mnt/below /mnt/above
mkfs.ext4 -q /dev/hostftl/below
mkfs.ext4 -q /dev/mapper/above
mount /dev/hostftl/below /mnt/below
mount /dev/mapper/above /mnt/above
yes "a line that must not be readable below" | head -c 4M >plain || true
for side in below above; do
    cp plain "/mnt/$side/plain"
    head -c 4M /dev/urandom >"/mnt/$side/random"
done
sync
sha256sum /mnt/*/plain /mnt/*/random >sums
kill -KILL "$server"
wait "$server" || true
serve_ublk volumes
echo 3 >/proc/sys/vm/drop_caches
sha256sum --quiet -c sums
! grep -q "must not be readable" below.img || fail "what lies below the volume is readable"
! grep -q "must not be readable" above.img || fail "what the volume got is readable"
umount /mnt/below /mnt/above
cryptsetup close above
e2fsck -fn /dev/hostftl/below
stop
"$HOSTFTL" check volumes/below.toml --data
"$HOSTFTL" check volumes/above.toml --data
cryptsetup close below
losetup -d "$loop"
echo "dm-crypt below a volume and above one: files intact over kill -9, nothing readable below"
