#!/usr/bin/env bash
# A server that died: no client gets OK for a flush that does not cover what was answered before. The
# plain name is refused until the operator says go on, and --ack media loses nothing.
source "$(dirname "$0")/lib.sh"
begin died "$@"
need jq nbdinfo qemu-img qemu-io

# said NAME: what a client says of the export of that name; it must be refused.
said() {
    ! qemu-img info "nbd+unix:///$1?socket=$sock" >"$dir/said" 2>&1 ||
        fail "export '$1' is not refused"
    cat "$dir/said"
}

# die ARGUMENTS…: a write is answered and not flushed, and the server dies.
die() {
    serve vol "$@"
    local to
    to=$(sed -n 's/^ready //p' "$dir/serve.out")
    # Without a flush: qemu-io would flush at its end, so the server dies first.
    qemu-io -f raw -t writeback "$to" >"$dir/io.out" 2>&1 < <(
        echo 'write -P 7 0 64k'
        await "the write is not answered" grep -q wrote "$dir/io.out"
        kill -KILL "$server"
        sleep 0.2
    ) || true
    grep -q 'wrote 65536' "$dir/io.out" || fail "the write was not answered"
    wait "$server" || true
    server=
}

create
die
"$hostftl" status --long "$dir/vol.toml" | grep 'ended uncleanly' || fail "status does not tell of the end"
serve vol 2>"$dir/serve.err"
# A thread of its own writes these lines.
await "serve does not report the unclean end" grep -q 'ended uncleanly' "$dir/serve.err"
await "serve does not name --reuse-export-name" grep -q -- '--reuse-export-name' "$dir/serve.err"
for plain in '' vol; do
    said "$plain" | grep -- '--reuse-export-name' || fail "a client is not told why '$plain' is refused"
done
said 'vol%401'
again=$(sed -n 's/^ready //p' "$dir/serve.out")
[[ $again == *'/vol%402?'* ]] || fail "the ready line says $again"
nbdinfo --size "$again" || fail "the URI of the ready line is refused"
nbdinfo --list "$again" | grep 'vol@2' || fail "the list does not have the name"
# Old clients may be there still after a clean stop.
stop
serve vol
said ''
stop
serve vol --reuse-export-name
nbdinfo --size "$uri" || fail "the operator's word changes nothing"
nbdinfo --size "nbd+unix:///vol%402?socket=$sock" || fail "who uses the newer name lost it"
stop
serve vol
nbdinfo --size "$uri" || fail "the operator's word is forgotten"
stop

die --ack media
serve vol 2>"$dir/serve.err"
grep -q 'no data is lost' "$dir/serve.err" || fail "it does not say that nothing is lost"
qemu-io -f raw -c 'read -P 7 0 64k' "$uri" >"$dir/io.out" 2>&1 || fail "the read fails"
! grep -qi 'verification failed' "$dir/io.out" || fail "--ack media lost an answered write"
"$hostftl" status "$dir/vol.toml" --json >"$dir/status.json"
jq -e '.unclean_shutdown and .export == "vol" and .ack != "durable"' "$dir/status.json" ||
    fail "the status says something else"
stop
check
ok "refused after a death until go on; write-through loses nothing"
