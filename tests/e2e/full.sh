#!/usr/bin/env bash
# The file system under a sparse image is full: clients get errors, the end is no clean one, nothing
# that was flushed is lost, `serve --read-only` shows it, and with room the volume goes on.
source "$(dirname "$0")/lib.sh"
begin full "$@"
need qemu-io fio nbdinfo jq
[ "$(id -u)" = 0 ] || skip "only root can mount a small file system"

disk=$dir/disk
mkdir "$disk"
mount -t tmpfs -o size=48m tmpfs "$disk" 2>&1 || skip "no tmpfs can be mounted here"
cleanup() {
    [ -z "$server" ] || { kill -KILL "$server"; wait "$server"; } 2>/dev/null
    umount -l "$disk"
}

# io COMMANDS…: qemu-io against the server, with what it said in $dir/io.out.
io() {
    local commands=() one
    for one in "$@"; do commands+=(-c "$one"); done
    qemu-io -f raw -t none "${commands[@]}" "$uri" >"$dir/io.out" 2>&1
}

# holds: what was flushed reads right.
holds() {
    io 'read -P 7 0 4M' 'read -P 8 4M 4M' || fail "what was flushed can't be read"
    ! grep -qi 'failed' "$dir/io.out" || fail "what was flushed is not there"
}

# fill: writes what can't be compressed until there is no room; the client must hear of that.
fill() {
    ! nbd_fio --rw=write --bs=64k --iodepth=8 --offset=16M --size=120M --refill_buffers \
        || fail "more was written than there is room for"
    grep -qE 'No space left|Input/output error' "$dir/nbd_fio.out" || fail "it is another error"
}

"$hostftl" create "$dir/vol.toml" --device "$disk/vol.img" --size 256M --sparse --layer "$layer"
serve vol --on-failure serve-errors 2>"$dir/serve.err"
io 'write -P 7 0 4M' 'write -P 8 4M 4M' flush || fail "the first writes fail"
fill
holds
kill -TERM "$server"
status=0
ended "$server" || status=$?
server=
# A layer that keeps nothing of its own has nothing to close, and ends clean.
if [ $status = 0 ]; then
    grep -q 'stopped clean' "$dir/serve.out" || fail "it ended with 0 and not clean"
    [ "$layer" = passthrough ] || fail "the layer $layer ended clean on a full file system"
else
    [ $status = 1 ] || fail "it ended with $status"
    ! grep -q 'stopped clean' "$dir/serve.out" || fail "it says clean, and ended with 1"
    grep -qi 'no space' "$dir/serve.err" || fail "it does not say why: $(cat "$dir/serve.err")"
fi

# Nothing can be written, and nothing is.
before=$(sha256sum <"$disk/vol.img")
serve vol --read-only
nbdinfo --json "$(sed -n 's/^ready //p' "$dir/serve.out")" | jq -e '.exports[0].is_read_only' ||
    fail "clients are not told that it is read-only"
uri=$(sed -n 's/^ready //p' "$dir/serve.out")
qemu-io -r -f raw -t none -c 'read -P 7 0 4M' -c 'read -P 8 4M 4M' "$uri" >"$dir/io.out" 2>&1 ||
    fail "what was flushed can't be read"
! grep -qi 'failed' "$dir/io.out" || fail "what was flushed is not there: $(cat "$dir/io.out")"
{ "$hostftl" status "$dir/vol.toml" || [ $? = 4 ]; } | grep "read-only" || fail "the status does not say read-only"
stop
grep -q 'no device was written' "$dir/serve.out" || fail "the end of a look says something else"
[ "$before" = "$(sha256sum <"$disk/vol.img")" ] || fail "a look wrote to the device"

# Without room a start says what to do, or needs none; with room the volume goes on.
uri="nbd+unix:///?socket=$sock"
rm "$dir/serve.out"
"$hostftl" serve "$dir/vol.toml" --nbd "unix:$sock" --on-failure serve-errors --reuse-export-name \
    >"$dir/serve.out" 2>"$dir/again.err" &
server=$!
is_decided() { grep -q '^ready' "$dir/serve.out" || is_over "$server"; }
await "a start neither serves nor ends" is_decided
if grep -q '^ready' "$dir/serve.out"; then
    holds
    kill -TERM "$server"
    ended "$server" || true
else
    status=0
    ended "$server" || status=$?
    [ $status = 1 ] || fail "a start without room ended with $status: $(cat "$dir/again.err")"
    grep -q -- '--read-only' "$dir/again.err" || fail "no word of what to do: $(cat "$dir/again.err")"
fi
server=
mount -o remount,size=400m "$disk"
serve vol --reuse-export-name
holds
io 'write -P 9 150M 4M' flush 'read -P 9 150M 4M' || fail "nothing can be written with room"
stop
grep -q 'stopped clean' "$dir/serve.out" || fail "the end is not clean with room"
check
ok "errors, an honest end, a look that writes nothing, and on with room"
