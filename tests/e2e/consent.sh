#!/usr/bin/env bash
# Who belongs to a mirror: a half that missed writes does not start alone, halves that were served separately
# are refused together, a look and a slow flush throw nobody out, and a start waits.
source "$(dirname "$0")/lib.sh"
begin consent log
need nbdkit qemu-io jq
need_filter error

io() {
    qemu-io -f raw -t none "$@" "$uri"
}

# refused WORDS ARGUMENTS…: a start that is refused with these words.
refused() {
    if timeout "$patience" "$hostftl" serve "$dir/vol.toml" --nbd "unix:$sock" --wait-devices 0 "${@:2}" \
        >"$dir/out" 2>&1; then
        fail "it starts, though it should say: $1"
    fi
    grep -q -- "$1" "$dir/out" || fail "the refusal does not say: $1"
}

# mirror B: a volume over a.img and B.
mirror() {
    rm -f "$dir/vol.toml" "$dir"/*.img
    truncate -s 96M "$dir/a.img" "$dir/b.img"
    [ -z "$back" ] || backing "${served_by[@]}"
    "$hostftl" create "$dir/vol.toml" --device "$dir/a.img" --device "$1" --mirror --layer log
}

# The half that missed a flush.
served_by=(--filter=error file "$dir/b.img" error-pwrite=EIO error-rate=100% "error-file=$dir/bad")
truncate -s 96M "$dir/b.img"
backing "${served_by[@]}"
mirror "nbd+unix:///?socket=$dir/back.sock&timeout=4"
serve vol 2>"$dir/serve.err"
io -c 'write -P 1 0 4k' -c flush
touch "$dir/bad"
io -c 'write -P 2 0 4k' -c flush || fail "the other half does not go on"
crash # Nothing but the flush tells the first half who is lost.
rm "$dir/bad"
mv "$dir/a.img" "$dir/away"
refused 'device 0 ('
refused 'hostftl serve --degraded'
mv "$dir/away" "$dir/a.img"
lose_backing
serve vol --wait-devices 0 2>"$dir/serve.err" || fail "a loss that is on record needs consent again"
io -c 'read -P 2 0 4k' | grep -q 'verification failed' && fail "a flushed write is gone"
stop
backing "${served_by[@]}"
serve vol 2>"$dir/serve.err"
grep -q 'it missed writes since' "$dir/serve.err" || fail "the stale half is not named"
io -c 'read -P 2 0 4k' | grep -q 'verification failed' && fail "a flushed write is gone"
stop

# A flush that takes longer than a server may be away.
cat >"$dir/plugin" <<EOF
#!/usr/bin/env bash
case "\$1" in
get_size) echo 96M ;;
can_write | can_flush) exit 0 ;;
pread) dd if="$dir/b.img" skip="\$4" count="\$3" iflag=count_bytes,skip_bytes bs=64k status=none ;;
pwrite) dd of="$dir/b.img" seek="\$4" oflag=seek_bytes conv=notrunc bs=64k status=none ;;
flush) if [ -e "$dir/slow" ]; then sleep 4; fi ;;
*) exit 2 ;;
esac
EOF
chmod +x "$dir/plugin"
served_by=(sh "$dir/plugin")
mirror "nbd+unix:///?socket=$dir/back.sock&timeout=2"
serve vol 2>"$dir/serve.err"
touch "$dir/slow"
io -c 'write -P 3 0 4k' -c flush || fail "a slow flush fails"
rm "$dir/slow"
"$hostftl" status "$dir/vol.toml" --json >"$dir/status.json"
jq -e '.degraded | not' "$dir/status.json" || fail "a slow flush throws a member out"
stop
# Its own deadline is shorter.
late="nbd+unix:///?socket=$dir/back.sock&timeout=2"
serve vol --deadline "$late=1" 2>"$dir/serve.err"
touch "$dir/slow"
io -c 'write -P 4 0 4k' -c flush || fail "the other half does not go on"
rm "$dir/slow"
"$hostftl" status "$dir/vol.toml" --json >"$dir/status.json" || true
jq -e '.degraded' "$dir/status.json" || fail "a deadline does not hold"
kill -TERM "$server"; wait "$server" || true; server=; rm -f "$sock"
lose_backing

# A look, a refusal, and too few descriptors throw nobody out; a start waits for who comes.
mirror "$dir/b.img"
serve; io -c 'write -P 5 0 4k' -c flush; stop
before=$(sha256sum <"$dir/a.img")
mv "$dir/b.img" "$dir/away"
"$hostftl" check "$dir/vol.toml" >"$dir/out" 2>&1 && fail "check says nothing of a member that is away"
grep -q 'hostftl check --degraded' "$dir/out" || fail "check does not say what to type"
"$hostftl" check --degraded "$dir/vol.toml" >"$dir/out" 2>&1 || true
"$hostftl" status "$dir/vol.toml" >"$dir/out" 2>&1 || true
"$hostftl" import "$dir/a.img" --output "$dir/va.toml"
refused 'b.img'
[ "$before" = "$(sha256sum <"$dir/a.img")" ] || fail "a look wrote something"
mv "$dir/away" "$dir/b.img"
supers() { head -c 8192 "$1" | sha256sum; }
before=$(supers "$dir/a.img")$(supers "$dir/b.img")
for files in 4 5 6 7 8 9; do
    (ulimit -n $files; timeout 2 "$hostftl" serve "$dir/vol.toml" --nbd "unix:$sock" --degraded \
        --wait-devices 0) || true
done
rm -f "$sock"
[ "$before" = "$(supers "$dir/a.img")$(supers "$dir/b.img")" ] ||
    fail "too few descriptors throw a member out"
mv "$dir/b.img" "$dir/away"
rm -f "$dir/serve.out"
"$hostftl" serve "$dir/vol.toml" --nbd "unix:$sock" --wait-devices 60 >"$dir/serve.out" 2>"$dir/serve.err" &
server=$!
await "it does not wait for a device" grep -q 'waiting up to 60 s for' "$dir/serve.err"
mv "$dir/away" "$dir/b.img"
ready
"$hostftl" status "$dir/vol.toml" --json >"$dir/status.json"
jq -e '.degraded | not' "$dir/status.json" || fail "a member that came is not taken"
stop

# Halves that were served separately.
"$hostftl" import "$dir/b.img" --output "$dir/vb.toml"
for half in a b; do
    serve v$half --degraded 2>"$dir/serve.err"
    io -c "write -P $((0x$half)) 0 4k" -c flush
    stop
done
refused 'were served separately'
refused 'hostftl import' --degraded
"$hostftl" check "$dir/vol.toml" >"$dir/out" 2>&1 && fail "check joins halves that were served separately"
rm "$dir/vol.toml"
"$hostftl" import "$dir/b.img" --output "$dir/vol.toml"
serve
io -c 'read -P 11 0 4k' | grep -q 'verification failed' && fail "the half that was kept has lost a write"
stop
ok "a stale half, a slow flush, looks, too few descriptors, a late member, halves served apart"
