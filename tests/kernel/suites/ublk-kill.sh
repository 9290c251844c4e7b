# kill -9 of a server under fio with verify, again and again ($KILLS times), with --ack media and --ack memfd
# by turns: its block device waits for the next server, nobody gets an error, and nothing that was answered is
# lost. Then a device that nobody takes over, or nobody may.
# seconds: 900
need fio
module ublk_drv
kills=${KILLS:-50}
acks=(media memfd)

"$HOSTFTL" create v.toml --device disk.img --size 128M --layer log --json >made.json
serve_ublk v.toml
first=$device
fio --name=w --filename="$device" --direct=1 --ioengine=libaio --iodepth=8 --rw=randwrite --bs=4k-64k \
    --size=48m --norandommap --verify=crc32c --verify_backlog=64 --time_based --runtime=3600 \
    --trigger-file=/run/t/enough --output=fio.out >/dev/null 2>&1 &
load=$!
# What fio has yet to begin proves nothing: its first writes are waited for.
has_writes() { [ "$(awk '{ print $5 }' "/sys/block/${first##*/}/stat")" -gt 0 ]; }
until_true 120 has_writes || { cat fio.out && fail "fio does not begin"; }
for kill in $(seq "$kills"); do
    sleep "0.$((RANDOM % 8 + 2))"
    kill -KILL "$server"
    wait "$server" || true
    serve_ublk v.toml --ack "${acks[kill % 2]}"
    [ "$device" = "$first" ] || fail "after $kill kills the volume is $device, not $first"
    kill -0 $load || { cat fio.out && fail "fio ended after $kill kills"; }
done
touch enough
until_true 120 gone $load || fail "fio does not end"
wait $load || { cat fio.out && fail "fio had an error"; }
grep -q 'err= 0' fio.out || { cat fio.out && fail "fio had an error"; }

# What was answered is there when the process dies without a flush.
for ack in "${acks[@]}"; do
    stop
    serve_ublk v.toml --ack "$ack"
    head -c 1M /dev/urandom >data
    dd if=data of="$device" bs=64k oflag=direct status=none
    kill -KILL "$server"
    wait "$server" || true
    cmp "$device" data -n 1048576 &
    reader=$!
    serve_ublk v.toml
    wait $reader || fail "a write that was answered with --ack $ack is gone"
done

# A server that would answer what dies with it is refused, and an orphan can be deleted.
kill -KILL "$server"
wait "$server" || true
! "$HOSTFTL" serve v.toml --ublk --ack buffer 2>refused || fail "a server that forgets was taken"
grep -q -- '--ack media' refused || { cat refused && fail "the refusal does not say what to do"; }
# Nor are NBD clients let in beside what waits: it would be written over what they write.
! timeout 600 "$HOSTFTL" serve v.toml --nbd unix:/run/t/alone.sock 2>refused || fail "NBD came first"
grep -q "hostftl ublk delete ${device#/dev/ublkb}" refused || { cat refused && fail "no way on"; }
"$HOSTFTL" ublk list | tee listed
grep -q "waits for a server" listed || fail "the orphan is not listed"
"$HOSTFTL" ublk delete "$device"
"$HOSTFTL" ublk list | grep -q "no ublk devices" || fail "the orphan is still there"

# Where the memory is gone in which answered writes were, nobody takes the device over.
serve_ublk v.toml --ack memfd
dd if=data of="$device" bs=64k oflag=direct status=none
kill -KILL "$server"
wait "$server" || true
rm /run/hostftl/*.stash
! "$HOSTFTL" serve v.toml --ublk 2>refused || fail "a device was taken over without what was answered"
grep -q "may be lost" refused || { cat refused && fail "the refusal does not say why"; }
"$HOSTFTL" ublk delete "$device"

# With --ack buffer the device ends with its server.
serve_ublk v.toml --ack buffer
kill -KILL "$server"
wait "$server" || true
until_true 30 missing "$device" || "$HOSTFTL" ublk list
! dd if="$device" of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null || fail "$device still answers"
echo "$kills kills under fio with verify: no error, nothing lost, always $first"
