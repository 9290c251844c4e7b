#!/usr/bin/env bash
# A medium that forgets what nobody flushed: after a flush that was answered, the power is cut, and
# what was written is there. Every layer, both engines, files, zoned files, an NBD export, a block
# device; and what the system still has of a device is not believed when it is opened.
#
# The medium is nbdkit with a cache that holds every write until a flush and dies with nbdkit, shown
# as a file by nbdfuse.
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

# power NUMBER…: media over $dir/back.NUMBER, as the files $dir/fuse.NUMBER/nbd.
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

# cut_power: the media lose what they did not write, the server is killed, and the media are gone.
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

# flushed VOLUME COMMANDS…: qemu-io against the server, then a flush; it dies without another.
flushed() {
    local of=$1 commands=() one
    shift
    for one; do commands+=(-c "$one"); done
    stdbuf -oL qemu-io -f raw -t writeback "${commands[@]}" -c flush -c abort "$uri" >"$dir/io.out" 2>&1 || true
    ! grep -qi 'failed\|error' "$dir/io.out" || fail "$of: $(cat "$dir/io.out")"
    [ "$(grep -c '^wrote' "$dir/io.out")" -eq $# ] || fail "$of: $(cat "$dir/io.out")"
}

# io VOLUME COMMANDS…: qemu-io against the server.
io() {
    local of=$1 commands=() one
    shift
    for one; do commands+=(-c "$one"); done
    qemu-io -f raw -t writeback "${commands[@]}" "$uri" >"$dir/io.out" 2>&1 ||
        fail "$of: $(cat "$dir/io.out")"
    ! grep -qi 'failed' "$dir/io.out" || fail "$of: $(cat "$dir/io.out")"
}

# kept DEVICE CREATE…: a volume with these arguments keeps what a flush covers when the power is
# cut. DEVICE is what $device stands for in them, over the medium 1; the medium 2 is there as well.
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
    io "$what: what was flushed is gone" 'read -P 7 0 300k' 'read -P 8 1M 4k'
    cut_power
    cases=$((cases + 1))
}

# attach file|zoned|nbd|loop: puts the name of such a device over the medium 1 into $device.
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

# fresh: blank media; with zones when $1 says so.
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

# A block device that goes through the page cache, whose number nobody else takes meanwhile.
loop_name=/dev/loop$((64 + $$ % 64))
rm -f "$dir/vol.toml"
truncate -s 64M "$dir/back.3"
if ! losetup --sector-size 4096 "$loop_name" "$dir/back.3"; then
    ok "$cases cuts kept what was flushed; no loop device: $(tail -n 1 "$log")"
fi
loop=$loop_name
for HOSTFTL_ENGINE in uring pread; do
    # Somebody else has it open, so that the system keeps what it has read, and what lies behind it
    # changes meanwhile. The first block lies behind the superblock's reserve.
    "$hostftl" create "$dir/vol.toml" --device "$loop" --layer passthrough --force
    exec 9<"$loop"
    head -c 2M <&9 >/dev/null
    dd if=<(yes 9) of="$dir/back.3" bs=4k seek=256 count=1 iflag=fullblock conv=notrunc
    serve vol
    io "what the system still had is shown" 'read -v 0 512'
    grep -q '39 0a 39 0a' "$dir/io.out" || fail "what the system still had of a device is believed"
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
ok "$cases cuts kept what was flushed, and no page cache was believed"
