# The guest loses its power ($CUTS times) while files are written and fsynced on ext4, xfs, btrfs and f2fs,
# each on a block device of ublk over `log`: each fsynced file is there, and each fsck is clean. Every
# second time it goes while the volumes recover and the file systems replay their journals.
# seconds: 900
need mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.f2fs e2fsck xfs_repair btrfs fsck.f2fs
module ublk_drv
module virtio_blk
cuts=${CUTS:-5}

devices() {
    local name
    for name in ext4 xfs btrfs f2fs; do
        truncate -s 768M "$out/$name.img"
        echo -drive
        echo "file=$out/$name.img,if=none,id=$name,format=raw,cache=writeback"
        echo -device
        echo "virtio-blk-pci,drive=$name,serial=$name"
    done
}

make() {
    case $1 in
    ext4) mkfs.ext4 -q "$2" ;;
    xfs) mkfs.xfs -q "$2" ;;
    btrfs) mkfs.btrfs -q "$2" ;;
    f2fs) mkfs.f2fs -q "$2" ;;
    esac
}

# sound NAME DEVICE: of a file system that is not mounted, and was mounted since the cut.
sound() {
    case $1 in
    ext4) e2fsck -fn "$2" ;;
    xfs) xfs_repair -n "$2" ;;
    btrfs) btrfs check "$2" ;;
    f2fs) fsck.f2fs --dry-run "$2" ;;
    esac >"fsck.$1" 2>&1 || { cat "fsck.$1" && fail "$1 is damaged"; }
}

# work NAME: writes files and fsyncs each; what was fsynced is told to the machine outside.
work() {
    local number=0 file
    while true; do
        number=$((number + 1))
        file=/mnt/$1/$LIFE.$number
        head -c $((RANDOM * 4 + 1)) /dev/urandom >"/run/t/new.$1"
        dd if="/run/t/new.$1" of="$file" bs=32k conv=fsync status=none || return
        echo "$(sha256sum <"/run/t/new.$1" | command cut -c 1-64)  $file" >>"/out/$1.sums"
    done
}

mkdir -p volumes
for name in ext4 xfs btrfs f2fs; do
    disk=$(grep -lx "$name" /sys/block/vd*/serial | command cut -d / -f 4)
    [ "$LIFE" -gt 0 ] || "$HOSTFTL" create "/out/$name.toml" --device "/dev/$disk" --layer log --json >/dev/null
    sed "s#/dev/vd.#/dev/$disk#" "/out/$name.toml" >"volumes/$name.toml"
done
recovers_only=$((LIFE % 2 == 1 && LIFE < cuts))
[ $recovers_only = 0 ] || cut "$((RANDOM % 4)).$((RANDOM % 10))"
serve_ublk volumes
files=0
for name in ext4 xfs btrfs f2fs; do
    modprobe "$name" || true
    [ "$LIFE" -gt 0 ] || make "$name" "/dev/hostftl/$name"
    mkdir -p "/mnt/$name"
    mount "/dev/hostftl/$name" "/mnt/$name"
done
if [ $recovers_only = 1 ]; then
    sleep 60
    fail "the power was not cut"
fi
if [ "$LIFE" -gt 0 ]; then
    for name in ext4 xfs btrfs f2fs; do
        sha256sum --quiet -c "/out/$name.sums" || fail "life $LIFE: a file that was fsynced on $name is gone"
        files=$((files + $(wc -l <"/out/$name.sums")))
        umount "/mnt/$name"
        sound "$name" "/dev/hostftl/$name"
        mount "/dev/hostftl/$name" "/mnt/$name"
        # Room for the files of the next life.
        rm -f "/mnt/$name/$((LIFE - 4))".*
        grep -v "/mnt/$name/$((LIFE - 4))\." "/out/$name.sums" >"sums.$name" || true
        cp "sums.$name" "/out/$name.sums"
    done
fi
if [ "$LIFE" -lt "$cuts" ]; then
    sync -f /mnt/*
    for name in ext4 xfs btrfs f2fs; do work "$name" & done
    # Under emulation a file takes half a second.
    cut "$((RANDOM % 8 + 4))"
    sleep 60
    fail "the power was not cut"
fi
for name in ext4 xfs btrfs f2fs; do umount "/mnt/$name"; done
stop
for name in ext4 xfs btrfs f2fs; do "$HOSTFTL" check "volumes/$name.toml" --data; done
echo "$cuts cuts of the guest's power: ext4, xfs, btrfs and f2fs sound, all fsynced files intact ($files at the last)"
