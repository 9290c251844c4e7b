#!/usr/bin/env bash
# A server can be stopped whatever became of its sockets and its clients; one process serves
# a volume; a layer that has failed for good ends the process, so that a service manager acts.
source "$(dirname "$0")/lib.sh"
begin stops "$@"
need jq nbdkit qemu-io
need_filter error

# sparse VOLUME: makes a volume whose file has no room yet.
sparse() {
    "$hostftl" create "$1" --device "${1%.toml}.img" --size 256M --sparse --layer "$layer"
}

others=()
cleanup() {
    kill -KILL "${others[@]}" 2>/dev/null
}

# The names of its sockets are gone, and somebody else has the one to tell its status.
create
serve
uuid=$("$hostftl" status "$dir/vol.toml" --json | jq -r .uuid | tr -d -)
control=
for folder in /run/hostftl "/run/user/$(id -u)/hostftl" "${XDG_RUNTIME_DIR:-/none}/hostftl" \
    "/tmp/hostftl-$(id -u)"; do
    [ ! -S "$folder/$uuid.sock" ] || control=$folder/$uuid.sock
done
[ -n "$control" ] || fail "a served volume has no control socket"
rm "$control" "$sock"
stop

# A copy beside the original: refused, and the original is none the worse for it.
cp --sparse=always "$dir/vol.img" "$dir/copy.img"
sed 's/vol\.img/copy.img/' "$dir/vol.toml" >"$dir/copy.toml"
serve
! timeout "$patience" "$hostftl" serve "$dir/copy.toml" --nbd "unix:$dir/copy.sock" 2>"$dir/err" ||
    fail "a copy is served beside the original"
grep -q "process $server .*from $dir/vol.toml" "$dir/err" || fail "it does not name who has it"
"$hostftl" status "$dir/vol.toml" --json | jq -e ".served_by == $server" ||
    fail "the original's status is gone"
"$hostftl" status "$dir/copy.toml" --json | jq -e '.served_by == null' ||
    fail "the copy shows the original's figures"
stop
serve copy
stop

# However many signals come, in whatever order, they are one stop, and a clean one.
for signals in 'TERM TERM' 'TERM INT TERM' 'HUP TERM HUP' 'USR1 XFSZ PIPE ALRM INT TERM' 'XCPU XCPU TERM'; do
    serve
    for signal in $signals; do kill "-$signal" "$server" 2>/dev/null || true; done
    status=0
    ended "$server" || status=$?
    [ $status -eq 0 ] || fail "after $signals the server ends with status $status"
    server=
done
serve
"$hostftl" status "$dir/vol.toml" --json | jq -e '.unclean_shutdown == false' || fail "a stop was not clean"

# A server that stands still: requests end in a bounded time, and are not carried out later.
kill -STOP "$server"
asking=()
for wish in scrub 'device offline' events; do
    device=$([ "$wish" != 'device offline' ] || echo 0)
    # shellcheck disable=SC2086
    timeout -s KILL 30 "$hostftl" $wish "$dir/vol.toml" $device 2>"$dir/${wish%% *}.err" &
    asking+=($!)
done
for pid in "${asking[@]}"; do ! wait "$pid" || fail "a request to a server that stands still is done"; done
for wish in scrub device events; do
    grep -q "process $server .*does not answer" "$dir/$wish.err" || fail "$wish does not say why it fails"
done
kill -CONT "$server"
"$hostftl" events "$dir/vol.toml" >"$dir/events"
grep -q started "$dir/events" || fail "it does not go on"
! grep -qE 'scrub|lost|excluded' "$dir/events" || fail "a request that had failed was carried out"
stop

# A limit of file sizes: writes are errors, with the reason, and no signal ends the server.
sparse "$dir/limit.toml"
rm -f "$dir/serve.out"
(ulimit -f 8192 && exec "$hostftl" serve "$dir/limit.toml" --nbd "unix:$sock" >"$dir/serve.out") \
    2>"$dir/serve.err" &
server=$!
ready
qemu-io -f raw -c 'write 0 32M' -c flush "$uri" >"$dir/io.out" 2>&1 || true
kill -TERM "$server" 2>/dev/null || true
status=0
ended "$server" || status=$?
[ $status -le 1 ] || fail "a limit of file sizes ends the server with status $status"
server=

# A client that stands still, and a scraper that asks for nothing.
serve vol --metrics 127.0.0.1:0 2>"$dir/serve.err"
qemu-io -f raw "$uri" >/dev/null 2>&1 < <(sleep 60) &
others+=($!)
await "no line names the port" grep -q 'http://127.0.0.1:[0-9]*/metrics' "$dir/serve.err"
port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$dir/serve.err")
exec 4<>"/dev/tcp/127.0.0.1/$port"
sleep 0.3
stop
exec 4<&-

if [ "$layer" = passthrough ]; then
    # A write that fails concerns nobody else there.
    ok "without sockets and readers"
fi

# Nothing can be written any more: it says so and ends, or goes on with errors.
truncate -s 128M "$dir/back.img"
backing --filter=error file "$dir/back.img" error-pwrite=EIO \
    error-pwrite-rate=100% "error-pwrite-file=$dir/bad"
"$hostftl" create "$dir/fails.toml" --device "nbd+unix:///?socket=$dir/back.sock&timeout=4" \
    --layer "$layer"
serve fails 2>"$dir/serve.err"
touch "$dir/bad"
qemu-io -f raw -c 'write 0 64k' -c flush "$uri" >"$dir/io.out" 2>&1 || true
grep -qi 'error' "$dir/io.out" || fail "a write that failed is no error"
status=0
ended "$server" || status=$?
[ $status -eq 1 ] || fail "a layer that failed ends with status $status"
server=
grep -q 'writes fail' "$dir/serve.err" || fail "it does not say why it ended"
rm "$dir/bad"
serve fails --reuse-export-name --on-failure serve-errors
touch "$dir/bad"
qemu-io -f raw -c 'write 0 64k' -c flush "$uri" >"$dir/io.out" 2>&1 || true
qemu-io -f raw -r -c 'read 1M 64k' "$uri" | grep 'read 65536' || fail "reads do not go on"
kill -TERM "$server"
status=0
ended "$server" || status=$?
[ $status -eq 1 ] || fail "a layer that failed stops with status $status"
server=
ok "without sockets, readers and a working layer"
