# Three volumes, each on a third of one zoned block device of null_blk, served at the same time, killed
# and verified. Together they may open as many zones as the device allows, and it refuses one more.
# seconds: 240
need fio nbd-client
module null_blk nr_devices=0
module nbd nbds_max=3
layers=(log pblk rrpc)

folder=/sys/kernel/config/nullb/shared
mkdir "$folder"
echo 1 >"$folder/memory_backed"
echo 1 >"$folder/zoned"
echo 2 >"$folder/zone_size"
echo 0 >"$folder/zone_nr_conv"
echo 30 >"$folder/zone_max_active"
echo 30 >"$folder/zone_max_open"
echo 4096 >"$folder/blocksize"
echo 360 >"$folder/size"
echo 1 >"$folder/power"
drive=zoned:/dev/shared

# refused WORDS ARG…: a create that must fail with these words.
refused() {
    ! "$HOSTFTL" create x.toml --layer log --device "${@:2}" 2>said || fail "$2 was not refused"
    grep -qF -- "$1" said || { cat said && fail "$2 was refused in other words"; }
}

start() {
    local at
    serve log.toml pblk.toml rrpc.toml "$@"
    for at in 0 1 2; do
        nbd-client -unix /run/t/nbd.sock "/dev/nbd$at" -N "${layers[at]}" -block-size 4096
    done
}

# sums: what the first 32 MiB of each volume are.
sums() {
    local at
    for at in 0 1 2; do dd if=/dev/nbd$at bs=1M count=32 status=none | sha256sum; done
}

end() {
    local at
    for at in 0 1 2; do nbd-client -d "/dev/nbd$at" || true; done
}

for at in 0 1 2; do
    "$HOSTFTL" create "${layers[at]}.toml" --layer "${layers[at]}" --label "${layers[at]}" \
        --device "$drive#zones=$((at * 60))-$((at * 60 + 59))"
done
refused 'zones 0 to 59 belong to volume log' "$drive#zones=50-90" --force
refused 'and this volume would use all of them' "$drive" --force
refused 'beyond the end' "$drive#zones=170-180"
start
refused 'in use by process' "$drive#zones=100-130"
for at in 0 1 2; do
    fio --name=w --filename=/dev/nbd$at --direct=1 --ioengine=libaio --iodepth=8 --rw=randwrite \
        --bs=4k-64k --size=32m --io_size=64m --norandommap --verify=crc32c --verify_backlog=512 \
        --randseed=7 --output=fio$at.out &
    jobs[at]=$!
done
for at in 0 1 2; do wait "${jobs[at]}" || { cat fio$at.out && fail "fio on ${layers[at]}"; }; done
for at in 0 1 2; do sync /dev/nbd$at; done
sums >before
kill -KILL "$server"
wait "$server" || true
end
start --reuse-export-name
sums >after
cmp before after
end
stop
for layer in "${layers[@]}"; do "$HOSTFTL" check "$layer.toml" --data; done
"$HOSTFTL" delete --force pblk.toml
"$HOSTFTL" create pblk.toml --layer log --device "$drive#zones=60-119"
for layer in "${layers[@]}"; do "$HOSTFTL" check "$layer.toml" --data; done
"$HOSTFTL" import "$drive#zones=120-179" --output again.toml
echo 0 >"$folder/power"
echo "log, pblk and rrpc on parts of one zoned block device: verified before and after kill -9"
