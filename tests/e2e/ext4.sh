#!/usr/bin/env bash
# ext4 on the volume (nbdfuse makes it a file, a loop device mounts it) survives kill -9: the journal
# replays, fsck finds nothing, and what was fsynced is there.
source "$(dirname "$0")/lib.sh"
begin ext4 "$@"
[ "$(id -u)" = 0 ] || skip "mounting needs root"
need jq nbdfuse losetup mkfs.ext4 e2fsck fusermount3
[ -c /dev/fuse ] || skip "there is no /dev/fuse"
[ -c /dev/loop-control ] || skip "there are no loop devices"

fuse=
loop=
cleanup() {
    ! mountpoint -q "$dir/mnt" || umount "$dir/mnt" || umount -l "$dir/mnt"
    [ -z "$loop" ] || losetup -d "$loop"
    loop=
    if [ -n "$fuse" ]; then
        # It may have died with the server; what it left is unmounted all the same.
        fusermount3 -u "$dir/fuse" || fusermount3 -uz "$dir/fuse" || true
        wait "$fuse" || true
    fi
    fuse=
}

has_file() {
    kill -0 "$fuse" 2>/dev/null || skip "nbdfuse does not run here (no FUSE?)"
    [ -f "$dir/fuse/nbd" ]
}

# The block device: $loop.
attach() {
    nbdfuse "$dir/fuse" "$uri" &
    fuse=$!
    await "nbdfuse shows no file" has_file
    loop=$(losetup --find --show --direct-io=on "$dir/fuse/nbd") || loop=
    [ -n "$loop" ] || skip "losetup gets no loop device here"
}

mkdir "$dir/fuse" "$dir/mnt"
create
serve
attach
mkfs.ext4 -q "$loop"
mount "$loop" "$dir/mnt" || skip "mounting is not allowed here"
mkdir "$dir/mnt/kept"
cp -r "$root/crates" "$root/docs" "$dir/mnt/kept/"
head -c 20M /dev/urandom >"$dir/mnt/kept/random"
(cd "$dir/mnt" && find kept -type f -exec sha256sum {} +) >"$dir/sums"
# fsync of each file and its folders; files that come later must not matter.
find "$dir/mnt/kept" -exec sync {} +
sync "$dir/mnt"
(for n in $(seq 1000); do
    head -c $((RANDOM * 4)) /dev/urandom >"$dir/mnt/late.$n" || break
done) &
writing=$!
sleep 1
crash
wait "$writing" || true
cleanup

serve
attach
status=0
e2fsck -fp "$loop" || status=$?
[ $status -le 1 ] || fail "e2fsck -fp could not replay the journal (status $status)"
e2fsck -fn "$loop" || fail "e2fsck -fn is not clean"
mount "$loop" "$dir/mnt"
(cd "$dir/mnt" && sha256sum --quiet -c "$dir/sums") || fail "an fsynced file is damaged"
files=$(wc -l <"$dir/sums")
rm -r "$dir/mnt/kept"
fstrim -v "$dir/mnt" || fail "fstrim does not work"
"$hostftl" status "$dir/vol.toml" --json >"$dir/status.json"
jq -e '.traffic.host_trim_bytes >= 20971520 and .traffic.flushes > 0' "$dir/status.json" ||
    fail "trims or flushes of the file system did not arrive at the server"
umount "$dir/mnt"
e2fsck -fn "$loop" || fail "e2fsck -fn is not clean after more work"
cleanup
stop
check
ok "$files fsynced files intact after kill -9, fsck clean"
