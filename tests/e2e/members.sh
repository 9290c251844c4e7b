#!/usr/bin/env bash
# A log array of 3 + 1 under fio while one member is cut short, replaced, full of errors or gone, and
# under kill -9: everything verifies, it is said loudly, and a member that missed writes stays out.
source "$(dirname "$0")/lib.sh"
begin members log
need fio nbdkit jq
need_filter error

load=
cleanup() {
    [ -z "$load" ] || kill -KILL "$load" 2>/dev/null
}

# array VOLUME [FOURTH]: a volume over d0 to d2 and FOURTH, or d3.
array() {
    local volume=$1 fourth=${2:-$dir/$1.d3}
    [ -n "${2:-}" ] || truncate -s 96M "$fourth"
    truncate -s 96M "$dir/$volume.d0" "$dir/$volume.d1" "$dir/$volume.d2"
    "$hostftl" create "$dir/$volume.toml" --device "$dir/$volume.d0" --device "$dir/$volume.d1" \
        --device "$dir/$volume.d2" --device "$fourth" --layer log:parity=yes
}

# What is old when a member goes wrong.
old=(--bs=64k --iodepth=4 --offset=32M --size=16M --verify=crc32c)

# Writes all the time, in the background, and verifies what it wrote.
begin_load() {
    nbd_fio --rw=write "${old[@]}" --do_verify=0 --end_fsync=1
    fio "${fio_base[@]}" --rw=randwrite --bs=4k --iodepth=16 --size=24M --io_size=96M \
        --verify=crc32c --fsync=128 --rate_iops=12000 >"$dir/fio.out" 2>&1 &
    load=$!
    sleep 0.7
}

end_load() {
    wait "$load" || { tail -n 20 "$dir/fio.out"; fail "$1: writes do not verify"; }
    load=
    nbd_fio --rw=read --bs=4k --iodepth=16 --size=24M --verify=crc32c --verify_only ||
        fail "$1: what was written is not read"
    nbd_fio --rw=read "${old[@]}" --verify_only || fail "$1: what is old is not read"
    "$hostftl" status "$dir/$2.toml" --json >"$dir/status.json" || [ $? = 4 ]
}

# again VOLUME: serves it again and expects all that was written, and that it runs without a member.
again() {
    serve "$1" --degraded --wait-devices 0 2>"$dir/serve.err"
    grep -q DEGRADED "$dir/serve.err" || fail "$1: nobody says that it runs without a member"
    nbd_fio --rw=read --bs=4k --iodepth=16 --size=24M --verify=crc32c --verify_only ||
        fail "$1: what was written is not there after a start"
    "$hostftl" status "$dir/$1.toml" --json >"$dir/status.json" || [ $? = 4 ]
    jq -e '.degraded and ([.devices[].health] | index("missing") != null)' "$dir/status.json" ||
        fail "$1: the status does not say so"
    stop
}

# Cut short under load.
array short
serve short
begin_load
truncate -s 2M "$dir/short.d1"
end_load "cut short" short
# What was cut off reads as zeros when the file has grown again.
jq -e '.degraded or .space.repaired_reads > 0 or ([.devices[].errors] | add > 0)' "$dir/status.json" ||
    fail "nobody noticed that a member was cut short"
stop
again short

# Overwritten under load by another file's content.
array replaced
serve replaced
begin_load
head -c 90M /dev/urandom | dd of="$dir/replaced.d2" bs=1M seek=2 conv=notrunc 2>/dev/null
end_load "replaced" replaced
jq -e '.space.repaired_reads > 0' "$dir/status.json" || fail "nothing was mended"
stop

# Every read and write of a member fails from some time on.
truncate -s 96M "$dir/back.img"
backing --filter=error file "$dir/back.img" error-pread=EIO \
    error-pwrite=EIO error-rate=100% "error-file=$dir/bad"
array errors "nbd+unix:///?socket=$dir/back.sock&timeout=4"
serve errors 2>"$dir/serve.err"
begin_load
touch "$dir/bad"
end_load "errors" errors
grep -q 'DEGRADED: device 3 .* was lost' "$dir/serve.err" || fail "serve does not say what it lost"
jq -e '.degraded and .devices[3].health == "lost"' "$dir/status.json" ||
    fail "the status does not tell of the lost member"
stop

# Gone, then killed again and again, then back: it missed writes and is left out.
array gone
serve gone
nbd_fio --rw=write --bs=64k --iodepth=4 --size=24M --verify=crc32c --do_verify=0 --end_fsync=1
stop
mv "$dir/gone.d0" "$dir/away"
if "$hostftl" serve "$dir/gone.toml" --nbd "unix:$sock" --wait-devices 0 >"$dir/out" 2>&1; then
    fail "it starts without a member, and nobody agreed"
fi
grep -q 'gone.d0' "$dir/out" || fail "the refusal does not name the member"
grep -q 'hostftl serve --degraded' "$dir/out" || fail "the refusal does not say what to type"
consent=(--degraded --wait-devices 0)
for round in 1 2 3; do
    serve gone "${consent[@]}" 2>"$dir/serve.err"
    consent=()
    fio "${fio_base[@]}" --rw=randwrite --bs=4k --iodepth=16 --size=24M --verify=crc32c \
        --verify_interval=512 --do_verify=0 --fsync=64 --time_based --runtime=60 \
        --randseed="$round" >"$dir/fio.out" 2>&1 &
    load=$!
    sleep 0.$((RANDOM % 5 + 4))
    crash
    wait "$load" || true
    load=
done
mv "$dir/away" "$dir/gone.d0"
before=$(sha256sum <"$dir/gone.d0")
serve gone 2>"$dir/serve.err"
grep -q 'gone.d0: it missed writes' "$dir/serve.err" || fail "a stale member is not named"
nbd_fio --rw=read --bs=4k --iodepth=16 --size=24M >/dev/null || fail "reads fail"
healed() {
    "$hostftl" status "$dir/gone.toml" --json >"$dir/status.json" || true
    jq -e '.space.failures_tolerated == 1' "$dir/status.json"
}
await "the volume does not protect itself without the stale member" healed
stop
[ "$before" = "$(sha256sum <"$dir/gone.d0")" ] || fail "a stale member was written to"
mv "$dir/gone.d2" "$dir/away"
"$hostftl" check "$dir/gone.toml" >"$dir/check.out" 2>&1 && fail "a second member is missing unsaid"
grep -q 'gone.d0: it missed writes' "$dir/check.out" || fail "the refusal does not say what is wrong"
serve gone --degraded --wait-devices 0
nbd_fio --rw=read --bs=4k --iodepth=16 --size=24M >/dev/null || fail "reads fail without a second"
stop
ok "cut short, replaced, full of errors, gone under three kills, back, and another gone"
