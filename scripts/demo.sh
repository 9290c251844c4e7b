#!/usr/bin/env bash
# The main job: advice on a recorded workload and a drive, then a volume under a real client whose
# server is killed and whose device dies. Leaves nothing behind.
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

# fio_on URI ARGUMENT…: a client that writes, or verifies, 128 MiB in blocks of 4 KiB.
fio_on() {
    local uri=$1
    shift
    if ! (cd "$work" && fio --name=demo --ioengine=nbd "--uri=$uri" --rw=randwrite --bs=4k \
        --iodepth=32 --size=128M --verify=crc32c --verify_fatal=1 --verify_state_save=0 "$@") \
        >"$work/fio.log" 2>&1; then
        echo "demo: fio found an error:" >&2
        tail -n 20 "$work/fio.log" "$work/serve.log" >&2
        return 1
    fi
    grep -E '^ *(read|write): ' "$work/fio.log" | sed 's/^ */   fio  /' || true
}

serve() {
    : >"$work/serve.log"
    "$hostftl" serve "$work/demo.toml" --nbd "unix:$work/demo.sock" "$@" >"$work/serve.log" 2>&1 &
    server=$!
    wait_ready
    uri=$(sed -n 's/^ready //p' "$work/serve.log")
}

# run COMMAND…: shows a command of hostftl and runs it, without the paths of this script.
run() {
    show "hostftl $*"
    (cd "$work" && "$hostftl" "$@") 2>&1 | sed "s|$work/||g"
}

volume_under_fio() {
    title "2. A compressed volume with parity, written by fio and killed in the middle of its work"
    run create demo.toml --device a.img --device b.img --device c.img --size 256M --layer log --parity
    show "hostftl serve demo.toml --nbd unix:demo.sock"
    serve
    show "fio: 128 MiB of random 4 KiB writes, then a flush"
    fio_on "$uri" --do_verify=0 --end_fsync=1
    # No client is left that could miss unflushed writes, so the export keeps its name.
    show "kill -9 $server; hostftl serve demo.toml --nbd unix:demo.sock --reuse-export-name"
    kill -KILL "$server"
    wait "$server" 2>/dev/null || true
    serve --reuse-export-name
    show "fio: verify every block"
    fio_on "$uri" --verify_only=1
    run status demo.toml

    title "3. A device dies: all of b.img is gone"
    show "truncate -s 0 b.img; fio: verify every block"
    truncate -s 0 "$work/b.img"
    fio_on "$uri" --verify_only=1
    run wait demo.toml || true
    run device replace demo.toml 1 new.img
    run wait demo.toml
    run status demo.toml || true
    kill -TERM "$server"
    wait "$server"
    server=
    run check demo.toml --data
}

title "HostFTL: a flash translation layer that runs on the host"
echo "It turns small random writes into the large sequential writes that flash needs. The advice"
echo "and the volume below run the same code."
scripts/setup.sh demo
scripts/cargo.sh build --release --quiet --workspace --bin hostftl

title "1. How long does a 30 TB QLC drive last under a database, and would a layer help?"
echo "The trace is MariaDB under sysbench, recorded for this project. Its data is taken to compress"
echo "2:1; for incompressible data the verdict is to write to the drive."
trace=traces/mariadb-oltp-head.csv.zst:compress=2
advise=(advise "$trace" --drive solidigm-d5-p5316-30t --load 5TB/day --layers "log:separation=none" --max-latency 2x)
show "hostftl ${advise[*]}"
"$hostftl" "${advise[@]}"

if command -v fio >/dev/null && fio --enghelp 2>/dev/null | grep -qw nbd; then
    volume_under_fio
else
    echo
    echo "SKIPPED: parts 2 and 3 need fio with its nbd engine (sudo apt-get install fio)."
fi

title "Next"
cat <<'TEXT'
  target/release/hostftl compare YOUR.csv --drive qlc-64k:capacity=2g
       your own workload; the format is t_us,op,byte_off,byte_len (traces/README.md)
  target/release/hostftl advise YOUR.csv --drive solidigm-d5-p5336-61t --load 12TB/day
       the layer to use on that drive, or none, and how long the drive lives
  target/release/hostftl create vol.toml --device /dev/YOURS --layer log
       a volume on a real drive; it refuses a drive that holds data
  scripts/rehearsal.sh
       a minute in which devices die, are replaced and are added under load
  docs/OPERATING.md is for operators, docs/STUDIES.md for studies, docs/ARCHITECTURE.md for developers.
TEXT
