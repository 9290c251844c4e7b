#!/usr/bin/env bash
# Who would take the server down: strangers who never finish their handshake, a reader of the log who
# stands still, a terminal that goes away.
source "$(dirname "$0")/lib.sh"
begin strangers log
need nbdinfo

create
port() { sed -n 's/^ready nbd:..127.0.0.1:\([0-9]*\).*/\1/p' "$dir/serve.out"; }

# Strangers take all places of handshakes, and a good client is served all the same.
"$hostftl" serve "$dir/vol.toml" --nbd tcp:127.0.0.1:0 >"$dir/serve.out" 2>"$dir/err" &
server=$!
ready
strangers=()
for _ in $(seq 80); do
    exec {stranger}<>"/dev/tcp/127.0.0.1/$(port)"
    strangers+=("$stranger")
done
for _ in 1 2 3; do
    timeout "$patience" nbdinfo --size "nbd://127.0.0.1:$(port)" || fail "strangers keep a good client out"
done
for stranger in "${strangers[@]}"; do exec {stranger}>&-; done
stop
grep -q 'too many handshakes' "$dir/err" || fail "no line says that a stranger had to go"

# Nobody reads the log, and strangers fill it.
mkfifo "$dir/unread"
sleep 1000 <"$dir/unread" &
reader=$!
cleanup() { kill -KILL "$reader" 2>/dev/null; }
rm -f "$dir/serve.out"
"$hostftl" serve "$dir/vol.toml" --nbd tcp:127.0.0.1:0 >"$dir/serve.out" 2>"$dir/unread" &
server=$!
ready
bells=$(printf '\\x07%.0s' $(seq 4000))
for _ in $(seq 300); do
    exec {stranger}<>"/dev/tcp/127.0.0.1/$(port)" || fail "the server takes no client any more"
    printf "\\x00\\x00\\x00\\x03IHAVEOPT\\x00\\x00\\x00\\x01\\x00\\x00\\x0f\\xa0$bells" >&"$stranger" || true
    exec {stranger}>&-
done
timeout "$patience" nbdinfo --size "nbd://127.0.0.1:$(port)" || fail "nobody is served when nobody reads"
kill -TERM "$server"
ended "$server" || fail "the server ended with status $? after SIGTERM"
server=

# A terminal that goes away ends nothing.
serve
kill -HUP "$server"
sleep 0.2
nbdinfo --size "$uri" || fail "SIGHUP ended the server"
stop
check
ok "80 strangers, 300 whose lines nobody reads, SIGHUP"
