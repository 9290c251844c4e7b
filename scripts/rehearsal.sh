#!/usr/bin/env bash
# A device dies under load, and a volume lives on: three files and an NBD export as devices, fio with
# verify as the client. The export's server is killed while fio writes, the volume protects itself
# without a spare, a new device takes the place of the dead one, one more comes while the client
# writes, and a scrub finds nothing wrong.
# Leaves nothing behind.
# seconds: 60
set -euo pipefail
cd "$(dirname "$0")/.."
hostftl="${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}"
work=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-rehearsal.XXXXXX")
server=
member=

cleanup() {
    status=$?
    trap - EXIT
    if [ -n "$member" ]; then
        kill -KILL "$member" 2>/dev/null || true
        wait "$member" 2>/dev/null || true
    fi
    if [ -n "$server" ]; then
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

title() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '\n$ %s\n' "$*"; }
fail() {
    echo "rehearsal: $*" >&2
    tail -n 20 "$work"/*.log >&2
    exit 1
}

# wait_ready LOG PROCESS: until a server says that it is ready.
wait_ready() {
    for _ in $(seq 300); do
        grep -q '^ready' "$1" && return 0
        kill -0 "$2" 2>/dev/null || break
        sleep 0.1
    done
    fail "a server did not get ready"
}

serve() {
    "$hostftl" serve "$work/vol.toml" --nbd "unix:$work/vol.sock" --reuse-export-name >"$work/serve.log" 2>&1 &
    server=$!
    wait_ready "$work/serve.log" "$server"
}

stop() {
    kill -TERM "$server"
    wait "$server" || true
    server=
}

# fio in the background: writes for so many seconds, and verifies all that it wrote.
load() {
    (cd "$work" && fio --name=load --ioengine=nbd "--uri=nbd+unix:///?socket=$work/vol.sock" \
        --rw=randwrite --bs=16k --iodepth=8 --size=96M --offset="$2" --io_size="$3" \
        --randrepeat=0 --buffer_compress_percentage=30 --verify=crc32c --verify_fatal=1 \
        --verify_state_save=0 --fsync=256) >"$work/$1.log" 2>&1
}

# One line of the status: what is exposed, or how many devices may be lost.
state() { "$hostftl" status "$work/vol.toml" 2>/dev/null | grep -E '^ *redundancy' || true; }

if ! command -v fio >/dev/null || ! fio --enghelp 2>/dev/null | grep -qw nbd; then
    echo "SKIPPED: the rehearsal needs fio with its nbd engine (sudo apt-get install fio)."
    exit 77
fi

title "1. A volume with parity over four devices, and a client that writes and verifies"
"$hostftl" create "$work/member.toml" --device "$work/member.img" --size 196M \
    --layer passthrough >/dev/null
"$hostftl" serve "$work/member.toml" --nbd "unix:$work/member.sock" >"$work/member.log" 2>&1 &
member=$!
wait_ready "$work/member.log" "$member"
export="nbd+unix:///?socket=$work/member.sock&timeout=2"
show "hostftl create vol.toml --device d0.img --device nbd+unix://… … --size 192M --layer log:parity=yes"
"$hostftl" create "$work/vol.toml" --device "$work/d0.img" --device "$export" \
    --device "$work/d2.img" --device "$work/d3.img" --size 192M --layer log:parity=yes |
    sed "s|$work/||g"
serve
load first 0 96M || fail "fio found an error"
state

title "2. Device 1 dies while the client writes"
load second 96M 96M &
client=$!
sleep 0.3
show "kill -KILL $member          (the server behind device 1)"
kill -KILL "$member"
wait "$member" 2>/dev/null || true
member=
wait "$client" || fail "the client noticed that a device died"
echo "   fio  every block that was written before and after reads back"
"$hostftl" events "$work/vol.toml" | grep -E 'device-' | head -n 2 | cut -c 1-150 |
    sed "s|$work/||g"
state

title "3. Without a spare and without a command, all that missed a chunk gets parity again"
for _ in $(seq 300); do
    state | grep -q 'can fail' && break
    sleep 0.1
done
state | grep 'can fail' || fail "the volume does not protect itself: $(state)"

title "4. A new device takes the place of the dead one, while the client writes"
load third 0 64M &
client=$!
show "hostftl device replace vol.toml 1 new.img"
"$hostftl" device replace "$work/vol.toml" 1 "$work/new.img" | sed "s|$work/||g"
wait "$client" || fail "the client noticed that a device came"
"$hostftl" wait "$work/vol.toml" >/dev/null
for _ in $(seq 300); do
    state | grep -q 'can fail' && break
    sleep 0.1
done
state | grep 'can fail' || fail "what the new device lacks is not made: $(state)"

title "5. One more device comes while the client writes"
load fourth 32M 96M &
client=$!
show "hostftl device add vol.toml more.img"
"$hostftl" device add "$work/vol.toml" "$work/more.img" | sed "s|$work/||g"
wait "$client" || fail "the client noticed that one more device came"
"$hostftl" events "$work/vol.toml" | grep -E 'device-added' | cut -c 1-150 | sed "s|$work/||g"

title "6. A scrub reads and checks all that lives"
show "hostftl scrub vol.toml --wait"
"$hostftl" scrub "$work/vol.toml" --wait | sed "s|$work/||g" || fail "the scrub found damage"
stop
show "hostftl check vol.toml --data"
"$hostftl" check "$work/vol.toml" --data | sed "s|$work/||g"
