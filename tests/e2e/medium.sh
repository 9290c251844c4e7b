#!/usr/bin/env bash
# Power cuts over a medium that loses all unflushed data: data from before a completed flush must
# survive. Every layer, both engines, files, zoned files, an NBD export and a block device. A stale
# page cache of a device must not be used when the device is opened.
#
# The medium is nbdkit with a cache that holds every write until a flush and is lost when nbdkit is
# killed. nbdfuse presents it as a file.
source "$(dirname "$0")/lib.sh"
begin medium log
need nbdkit nbdfuse fusermount3 qemu-io stdbuf
nbdkit --filter=cache null --dump-plugin >/dev/null || skip "nbdkit has no filter cache"
[ -e /dev/fuse ] || skip "/dev/fuse is missing here"

kits=()
fuses=()
loop=
cleanup() {
    cut_power 2>/dev/null
}

# power NUMBER…: starts media over $dir/back.NUMBER, as the files $dir/fuse.NUMBER/nbd.
power() {
    local number
    for number; do
        mkdir -p "$dir/fuse.$number"
        rm -f "$dir/medium.$number" "$dir/pid.$number"
        nbdkit --foreground --unix "$dir/medium.$number" --pidfile "$dir/pid.$number" \
            --filter=cache file "$dir/back.$number" cache=writeback &
        kits+=($!)
        await "the medium is not ready" test -s "$dir/pid.$number"
        nbdfuse "$dir/fuse.$number" "nbd+unix:///?socket=$dir/medium.$number" &
        fuses+=($!)
        await "the medium is not ready" test -f "$dir/fuse.$number/nbd"
    done
}

# cut_power: kills the media, which lose all unflushed data, and then the server.
cut_power() {
    local pid folder
    for pid in "${kits[@]}"; do kill -KILL "$pid" || true; wait "$pid" || true; done
    kits=()
    [ -z "$server" ] || crash
    [ -z "$loop" ] || { losetup --detach "$loop" || true; loop=; }
    for folder in "$dir"/fuse.*; do fusermount3 -uzq "$folder" || true; done
    for pid in "${fuses[@]}"; do kill -KILL "$pid" || true; wait "$pid" || true; done
    fuses=()
}

# flushed VOLUME COMMANDS…: runs qemu-io against the server, then one flush; aborts without another.
flushed() {
    local of=$1 commands=() one
    shift
    for one; do commands+=(-c "$one"); done
    stdbuf -oL qemu-io -f raw -t writeback "${commands[@]}" -c flush -c abort "$uri" >"$dir/io.out" 2>&1 || true
    ! grep -qi 'failed\|error' "$dir/io.out" || fail "$of: $(cat "$dir/io.out")"
    [ "$(grep -c '^wrote' "$dir/io.out")" -eq $# ] || fail "$of: $(cat "$dir/io.out")"
}

# io VOLUME COMMANDS…: runs qemu-io against the server.
io() {
    local of=$1 commands=() one
    shift
    for one; do commands+=(-c "$one"); done
    qemu-io -f raw -t writeback "${commands[@]}" "$uri" >"$dir/io.out" 2>&1 ||
        fail "$of: $(cat "$dir/io.out")"
    ! grep -qi 'failed' "$dir/io.out" || fail "$of: $(cat "$dir/io.out")"
}

# kept DEVICE CREATE…: a volume with these arguments keeps flushed data across a power cut. DEVICE is
# the kind of device (see attach) over medium 1; medium 2 is running too.
cases=0
kept() {
    local what="$* ($HOSTFTL_ENGINE)"
    power 1 2
    attach "$1"
    rm -f "$dir/vol.toml"
    "$hostftl" create "$dir/vol.toml" --device "$device" "${@:2}" --force
    serve vol
    flushed "$what" 'write -P 7 0 300k' 'write -P 8 1M 4k'
    cut_power
    power 1 2
    attach "$1"
    serve vol --wait-devices 0
    io "$what: flushed data is lost" 'read -P 7 0 300k' 'read -P 8 1M 4k'
    cut_power
    cases=$((cases + 1))
}

# attach file|zoned|nbd|loop: sets $device to the name of such a device over medium 1.
attach() {
    case $1 in
    file) device=$dir/fuse.1/nbd ;;
    zoned) device=zoned:$dir/fuse.1/nbd ;;
    nbd) device="nbd+unix:///?socket=$dir/medium.1" ;;
    # With sectors of 4 KiB transfers go through the page cache.
    loop)
        losetup --sector-size 4096 "$loop_name" "$dir/fuse.1/nbd"
        loop=$loop_name
        device=$loop
        ;;
    esac
}

# fresh [zoned]: makes blank media, with zones on request.
fresh() {
    rm -f "$dir/back.1" "$dir/back.2" "$dir/zoned.toml"
    truncate -s 40M "$dir/back.2"
    if [ "${1:-}" = zoned ]; then
        "$hostftl" create "$dir/zoned.toml" --device "zoned:$dir/back.1?zone=1M" \
            --size 64M --layer pblk
    else
        truncate -s 64M "$dir/back.1"
    fi
}

for HOSTFTL_ENGINE in uring pread; do
    export HOSTFTL_ENGINE
    for layer in passthrough hard shatl shatl:mode=ressd mhatl hatl-auto log; do
        fresh
        kept file --layer "$layer"
    done
    fresh
    kept file --device "$dir/fuse.2/nbd" --layer tier
    fresh
    kept file --device "$dir/fuse.2/nbd" --layer log --mirror
    fresh
    kept file --layer log --journal "$dir/fuse.2/nbd"
    fresh
    kept nbd --layer hard
    for layer in pblk rrpc log; do
        fresh zoned
        kept zoned --layer "$layer"
    done
done

# A block device behind the page cache. Its number is chosen so that concurrent runs do not collide.
loop_name=/dev/loop$((64 + $$ % 64))
rm -f "$dir/vol.toml"
truncate -s 64M "$dir/back.3"
if ! losetup --sector-size 4096 "$loop_name" "$dir/back.3"; then
    ok "$cases cuts kept flushed data; no loop device: $(tail -n 1 "$log")"
fi
loop=$loop_name
for HOSTFTL_ENGINE in uring pread; do
    # Another descriptor keeps the device open, so that its page cache survives while the backing file
    # changes. The first block of the volume is behind the superblock's reserve.
    "$hostftl" create "$dir/vol.toml" --device "$loop" --layer passthrough --force
    exec 9<"$loop"
    head -c 2M <&9 >/dev/null
    dd if=<(yes 9) of="$dir/back.3" bs=4k seek=256 count=1 iflag=fullblock conv=notrunc
    serve vol
    io "stale data from the page cache" 'read -v 0 512'
    grep -q '39 0a 39 0a' "$dir/io.out" || fail "the stale page cache of a device was used"
    stop
    exec 9<&-
    rm "$dir/vol.toml"
done
losetup --detach "$loop"
loop=
for HOSTFTL_ENGINE in uring pread; do
    for layer in passthrough log; do
        fresh
        kept loop --layer "$layer"
    done
done
ok "$cases cuts kept flushed data, and no stale page cache was used"
