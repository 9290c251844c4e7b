#!/usr/bin/env bash
# Both superblocks of a device are overwritten, as by a tool that partitions: a backup brings the volume
# back with every block right, and is refused wherever it would be wrong.
source "$(dirname "$0")/lib.sh"
begin dump "$@"
need qemu-io jq

io() {
    qemu-io -f raw -t none "$@" "$uri"
}

# refused WORDS ARGUMENTS…: a dump that fails with one line, which has these words.
refused() {
    local status=0
    timeout "$patience" "$hostftl" dump "${@:2}" >"$dir/out" 2>"$dir/err" || status=$?
    cat "$dir/out" "$dir/err"
    [ $status -eq 1 ] || fail "dump ${*:2} ended with status $status"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail "dump ${*:2} said more or less than one line"
    grep -q -- "$1" "$dir/err" || fail "dump ${*:2} did not say: $1"
}

# wipe IMAGE [BYTES]: what a new partition table takes at both ends.
wipe() {
    local size tail
    size=$(stat -c %s "$1")
    tail=$((size / 512 - 33))
    dd if=/dev/urandom of="$1" bs=512 count=34 conv=notrunc status=none
    dd if=/dev/urandom of="$1" bs=512 seek=$tail count=33 conv=notrunc status=none
    printf 'EFI PART' | dd of="$1" bs=512 seek=1 conv=notrunc status=none
}

# same FILE COMMAND…: the command fails or not, but leaves the file as it is.
same() {
    local before
    before=$(md5sum <"$1")
    "${@:2}"
    [ "$(md5sum <"$1")" = "$before" ] || fail "${*:2} wrote to $1"
}

create vol 64M
create other 64M
"$hostftl" dump "$dir/other.toml" --backup "$dir/other.bak"
serve
"$hostftl" dump "$dir/vol.toml" --backup "$dir/vol.bak"
for block in $(seq 0 40); do
    echo "write -P $((block + 1)) ${block}M 64k"
done >"$dir/writes"
sed 's/write/read/' "$dir/writes" >"$dir/reads"
{ cat "$dir/writes" && echo flush; } | io
"$hostftl" dump "$dir/vol.toml" >"$dir/out" || fail "a volume that is served is not shown"
grep -q "by process $server" "$dir/out" || fail "dump does not say who serves the volume"
refused "process $server serves" --restore "$dir/vol.bak" "$dir/vol.toml"
stop

refused "exists" "$dir/vol.toml" --backup "$dir/vol.bak"
same "$dir/vol.img" "$hostftl" dump "$dir/vol.toml" --restore "$dir/vol.bak" |
    grep -q "nothing to restore" || fail "a sound superblock was not left as it is"
refused "is volume" --restore "$dir/other.bak" "$dir/vol.toml"
same "$dir/vol.img" refused "belongs to volume" --restore "$dir/other.bak" "$dir/vol.img"

wipe "$dir/vol.img"
if "$hostftl" check "$dir/vol.toml"; then fail "the superblocks are there still"; fi
status=0
"$hostftl" dump "$dir/vol.toml" || status=$?
[ $status -eq 4 ] || fail "dump of a device without superblocks ended with status $status"
head -c 20000 "$dir/vol.bak" >"$dir/cut.bak"
same "$dir/vol.img" refused "truncated backup" --restore "$dir/cut.bak" "$dir/vol.toml"
cp "$dir/vol.bak" "$dir/rotten.bak"
printf x | dd of="$dir/rotten.bak" bs=1 seek=9000 conv=notrunc status=none
same "$dir/vol.img" refused "damage at byte 8192" --restore "$dir/rotten.bak" "$dir/vol.toml"
refused "not a backup" --restore "$dir/vol.toml" "$dir/vol.toml"
truncate -s 32M "$dir/short.img"
refused "had 67108864" --restore "$dir/vol.bak" "$dir/short.img"
same "$dir/vol.img" refused "GPT partition table" --restore "$dir/vol.bak" "$dir/vol.toml"
same "$dir/vol.img" "$hostftl" dump --restore "$dir/vol.bak" "$dir/vol.toml" --force --dry-run
"$hostftl" dump --restore "$dir/vol.bak" "$dir/vol.toml" --force || fail "it can't be restored"
check
"$hostftl" check --data "$dir/vol.toml" || fail "the data is not all there"
rm "$dir/vol.toml"
"$hostftl" import "$dir/vol.img" --output "$dir/vol.toml" || fail "the device is no volume again"
# The marks were overwritten too: nobody knows how the last run ended.
"$hostftl" status --json "$dir/vol.toml" | jq -e .unclean_shutdown || fail "an unknown end counts as clean"
go_on=(--reuse-export-name)
serve
io <"$dir/reads" >"$dir/out" || fail "reads fail"
cat "$dir/out"
! grep -q "verification failed" "$dir/out" || fail "a block is not what was written"
[ "$(grep -c "read 65536/65536" "$dir/out")" -eq 41 ] || fail "not every block was read"
stop
[ "$layer" = log ] || ok "a backup of metadata; both superblocks lost, and written again"

# A mirror that went on without one half: the backup is older than that.
truncate -s 64M "$dir/a.img" "$dir/b.img"
"$hostftl" create "$dir/m.toml" --device "$dir/a.img" --device "$dir/b.img" --mirror --layer log
"$hostftl" dump "$dir/a.img" "$dir/b.img" --backup "$dir/old.bak"
mv "$dir/b.img" "$dir/away.img"
serve m --degraded --wait-devices 0
io -c 'write -P 7 0 1M' -c flush
stop
"$hostftl" dump "$dir/m.toml" --json >"$dir/out" || true
jq -e '.devices[0].superblocks[0].says.members[1].state == "left out"' "$dir/out" ||
    fail "dump does not say who is left out"
mv "$dir/away.img" "$dir/b.img"
wipe "$dir/a.img"
same "$dir/a.img" refused "device 1 was lost after" --force --restore "$dir/old.bak" "$dir/m.toml"
"$hostftl" dump --force --restore "$dir/old.bak" "$dir/a.img" missing || fail "not without b"
rm "$dir/m.toml"
"$hostftl" import "$dir/a.img" --output "$dir/m.toml"
go_on=(--reuse-export-name)
serve m --degraded --wait-devices 0
io -c 'read -P 7 0 1M' | tee "$dir/out"
! grep -q "verification failed" "$dir/out" || fail "the newer half is not what was written"
stop

# Of two halves that are both intact one lost its superblocks: the other says what counts.
"$hostftl" create "$dir/n.toml" --device "$dir/c.img" --device "$dir/d.img" --size 64M --mirror \
    --layer log
"$hostftl" dump "$dir/n.toml" --backup "$dir/n.bak"
"$hostftl" device offline "$dir/n.toml" "$dir/d.img" || fail "d can't be left out"
"$hostftl" device online "$dir/n.toml" "$dir/d.img" || fail "d can't be taken back"
wipe "$dir/c.img"
"$hostftl" dump --force --restore "$dir/n.bak" "$dir/n.toml" | tee "$dir/out"
grep -q "written, generation 4" "$dir/out" || fail "the newer superblock of the other does not count"
check n
ok "a backup of metadata; superblocks of one device, and of a half, lost and written again"
