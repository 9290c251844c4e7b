#!/usr/bin/env bash
# The main job on the embedded default: a real volume under a real client, then the same layer
# measured on a recorded workload. Leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/.."
hostftl="$(scripts/cargo.sh where)/hostftl"
work=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-demo.XXXXXX")
server=

cleanup() {
    status=$?
    trap - EXIT
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

# Waits until the server says that it is ready.
wait_ready() {
    for _ in $(seq 200); do
        grep -q '^ready' "$work/serve.log" && return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "demo: the server did not get ready:" >&2
    cat "$work/serve.log" >&2
    return 1
}

# Writes every block once in random order, each time another, and reads all of them back.
write_and_verify() {
    if ! (cd "$work" && fio --name=demo --ioengine=nbd "--uri=nbd+unix:///?socket=$work/demo.sock" \
        --rw=randwrite --bs=4k --iodepth=32 --size=256M --randrepeat=0 --fsync=4096 \
        --verify=crc32c --verify_fatal=1 --verify_state_save=0 --group_reporting) \
        >"$work/fio.log" 2>&1; then
        echo "demo: fio found an error:" >&2
        tail -n 20 "$work/fio.log" "$work/serve.log" >&2
        return 1
    fi
    grep -E '^ *(read|write): ' "$work/fio.log" | sed 's/^ */   fio  /'
}

serve_under_fio() {
    title "1. A volume: layer hard over an ordinary file"
    show "hostftl create demo.toml --device demo.img --size 320M --layer hard"
    "$hostftl" create "$work/demo.toml" --device "$work/demo.img" --size 320M --layer hard

    title "2. Served as a block device, and driven by fio: random 4 KiB writes, every one verified"
    show "hostftl serve demo.toml --nbd unix:demo.sock"
    "$hostftl" serve "$work/demo.toml" --nbd "unix:$work/demo.sock" >"$work/serve.log" 2>&1 &
    server=$!
    wait_ready
    grep '^ready' "$work/serve.log" | sed "s|$work/||"
    show "fio --ioengine=nbd --rw=randwrite --bs=4k --iodepth=32 --size=256M --verify=crc32c  (twice)"
    write_and_verify
    write_and_verify
    echo "   fio  every block read back as it was written"

    show "hostftl status demo.toml"
    "$hostftl" status "$work/demo.toml" | sed "s|$work/||g"
    kill -TERM "$server"
    wait "$server"
    server=
    show "hostftl check demo.toml        (after a clean stop)"
    "$hostftl" check "$work/demo.toml" | sed "s|$work/||g"
}

title "HostFTL: a flash translation layer that runs on the host"
echo "It gathers small random writes into the large sequential ones that flash wants. The code that"
echo "serves the volume below is the code that the comparison after it measures."
scripts/setup.sh demo
scripts/cargo.sh build --release --quiet --workspace --bin hostftl
if command -v fio >/dev/null && fio --enghelp 2>/dev/null | grep -qw nbd; then
    serve_under_fio
else
    echo
    echo "SKIPPED: parts 1 and 2 need fio with its nbd engine (sudo apt-get install fio)."
fi

title "3. What would each layer do to a database's writes?"
echo "The trace: MariaDB under sysbench, recorded for this project. The drive: a model whose own map"
echo "has 64 KiB superpages, so every smaller write costs it a read-modify-write. It is shown new, filled"
echo "to 70 %, aged by random writes, and aged by the trace itself."
show "hostftl compare traces/mariadb-oltp-head.csv.zst --drive hatl-2g --compact"
"$hostftl" compare traces/mariadb-oltp-head.csv.zst --drive hatl-2g --compact

title "Next"
cat <<'TEXT'
  scripts/rehearsal.sh
       a minute in which a device dies under a client, the volume heals, a new device comes, and a scrub is clean
  target/release/hostftl compare traces/mariadb-oltp-head.csv.zst --compact --drive hatl-1g
       the same on a smaller drive
  target/release/hostftl compare YOUR.csv --drive hatl-32g --layers passthrough,hard
       your own workload; the format is t_us,op,byte_off,byte_len (traces/README.md)
  target/release/hostftl compare synth:uniform:size=4k,span=64m,count=100000
       a synthetic one
  target/release/hostftl create vol.toml --device /dev/YOURS --layer hard
       a volume on a real drive; it asks for --force before it overwrites anything
  docs/ARCHITECTURE.md explains how it works, docs/SEMANTICS.md what it promises.
TEXT
