# What `--ack buffer`, `memfd` and `media` cost, for people: random writes of 4 KiB to three volumes of `log`
# behind ublk, one after the other and 32 at a time, by turns in one guest. The devices are memory, where a
# flush costs next to nothing: on a drive `media` is slower. Not part of what runs without a name.
# seconds: 900
# extra: yes
need fio jq
module ublk_drv
rounds=${ROUNDS:-5}
acks="buffer memfd media"

mkdir -p /dev/shm/b
servers=
for ack in $acks; do
    "$HOSTFTL" create "$ack.toml" --device "/dev/shm/b/$ack.img" --size 192M --layer log --json >/dev/null
    serve_ublk "$ack.toml" --ack "$ack"
    echo "$device" >"$ack.device"
    servers="$servers $server"
done
for round in $(seq "$rounds"); do
    for depth in 1 32; do
        for ack in $acks; do
            fio --name=f --filename="$(cat "$ack.device")" --direct=1 --ioengine=libaio --rw=randwrite --bs=4k \
                --iodepth="$depth" --size=96m --norandommap --time_based --runtime=2 --output-format=json \
                --output=fio.json >/dev/null
            jq '.jobs[0].write.iops | floor' fio.json >>"$depth.$ack"
        done
    done
done
# shellcheck disable=SC2086 # a list of numbers
kill -TERM $servers
middle() { sort -n <"$1" | sed -n "$(((rounds + 1) / 2))p"; }
for depth in 1 32; do
    for ack in $acks; do
        spread=$(sort -n <"$depth.$ack" | sed -n '1p;$p' | xargs)
        echo "QD $depth $ack: $(middle "$depth.$ack") writes a second (${spread/ /–})"
    done
done | tee figures
echo "$(xargs <figures); at QD 1 memfd $(($(middle 1.memfd) * 100 / $(middle 1.buffer))) % of buffer," \
    "media $(($(middle 1.media) * 100 / $(middle 1.buffer))) %"
