#!/usr/bin/env bash
# kill -9 of a server with --ack memfd, ten times: all that was answered is there, flushed or not, and
# clients go on under the plain name. Then starts that find what a server left: one without --ack memfd,
# one that only reads, a check, and a delete.
source "$(dirname "$0")/lib.sh"
begin kept "$@"
need nbdcopy
[ "$(stat -f -c %T /dev/shm)" = tmpfs ] || skip "/dev/shm is no tmpfs"
rounds=${ROUNDS:-10}
writer=$("$root/scripts/cargo.sh" where)/examples/verified_writer
"$root/scripts/cargo.sh" build --release --quiet --workspace \
    --example verified_writer

# The stashes of the volume, in whichever folder.
stashes() {
    local uuid
    uuid=$(sed -n 's/^uuid = "\(.*\)"/\1/p' "$dir/vol.toml" | tr -d -)
    [ -n "$uuid" ] || fail "the volume file names no UUID"
    find /run/hostftl /dev/shm/hostftl-* "/run/user/$(id -u)/hostftl" -name "$uuid.*.stash" 2>/dev/null || true
}

# A crash after which nobody has to say go on.
die() {
    crash
    go_on=()
}

# Whether the volume begins with $dir/data.
has_data() {
    nbdcopy "$uri" "$dir/there" && cmp -n "$(stat -c %s "$dir/data")" "$dir/there" "$dir/data"
}

create vol 160M
for round in $(seq "$rounds"); do
    serve vol --ack memfd
    if [ "$round" -gt 1 ]; then
        "$writer" check "$sock" "$dir/state" || fail "round $round: an answered write is gone"
    fi
    "$writer" run "$sock" "$dir/state" "$round" kept &
    load=$!
    sleep 0.$((RANDOM % 6 + 3))
    die
    wait "$load" || fail "round $round: the writer saw wrong data or an error before the kill"
done
serve
"$writer" check "$sock" "$dir/state" || fail "an answered write is gone after a start with --ack buffer"
[ -z "$(stashes)" ] || fail "a stash is left although nothing is in it: $(stashes)"
stop
check
total=$("$writer" sum "$dir/state")

# More than a stash has room for goes through without a flush of the client.
serve vol --ack memfd
head -c 100M /dev/urandom >"$dir/data"
nbdcopy "$dir/data" "$uri"
die
"$hostftl" check "$dir/vol.toml" | grep -q "for the next .hostftl serve" || fail "check says nothing"
"$hostftl" status --long "$dir/vol.toml" | grep -q "for the next .hostftl serve" || fail "status says nothing"
serve vol --read-only
has_data || fail "a server that only reads lacks it"
stop
serve vol --ack memfd
has_data || fail "an answered write is gone"
head -c 1M /dev/urandom >"$dir/data"
nbdcopy "$dir/data" "$uri"
die
[ -n "$(stashes)" ] || fail "no stash is left"
"$hostftl" delete "$dir/vol.toml" --force
[ -z "$(stashes)" ] || fail "a stash is left of a volume that is no more"
ok "$rounds kills, nothing that was answered is gone: $total"
