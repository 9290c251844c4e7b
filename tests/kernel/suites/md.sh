# Figures, for people: `log` with parity beside md's RAID 5, on loop devices of the same kind in one guest: how long
# a lost device takes to be made anew, how much is written to the new one, and what a host notices. Under emulation
# a guest is many times slower than a machine, so it is the relation that counts. Not part of what runs
# without a name.
# seconds: 3000
# memory: 5G
# extra: yes
need fio jq losetup
module loop
module raid456
module ublk_drv
rounds=${ROUNDS:-3}
size=${DEVICE:-512M}
chunk=65536

# part NAME: a loop device over a fresh file in memory, in direct mode, so that all count what they write.
part() {
    rm -f "/dev/shm/$1"
    truncate -s "$size" "/dev/shm/$1"
    losetup -f --show "/dev/shm/$1"
}

# written KIND: bytes that were written to the new device. The kernel's count would have what is only cleared in it.
written() {
    case $1 in
    md) echo $(($(awk '{ print $7 }' "/sys/block/${new#/dev/}/stat") * 512)) ;;
    log) "$HOSTFTL" status v.toml --json | jq --arg new "$new" '[.devices[] | select(.name == $new).written_bytes] | add // 0' ;;
    esac
}

number() {
    cat "/sys/block/${1#/dev/}/dev"
}

# md_begin DEVICE…: RAID 5 over these, in sync from the start as they are all zeros. It is /dev/md_t.
md_begin() {
    local index=0 one kib
    kib=$(($(blockdev --getsize64 "$1") / 1024))
    echo md_t >/sys/module/md_mod/parameters/new_array
    cd /sys/block/md_t/md
    echo none >metadata_version
    echo raid5 >level
    echo $# >raid_disks
    echo 2 >layout
    echo $chunk >chunk_size
    echo "$kib" >component_size
    for one in "$@"; do
        number "$one" >new_dev
        echo 0 >"dev-${one#/dev/}/offset"
        echo $index >"dev-${one#/dev/}/slot"
        index=$((index + 1))
    done
    echo none >resync_start
    echo active >array_state
    cd /run/t
}

md_end() {
    echo clear >/sys/block/md_t/md/array_state
}

md_whole() {
    [ "$(cat /sys/block/md_t/md/degraded)" = 0 ] && [ "$(cat /sys/block/md_t/md/sync_action)" = idle ]
}

# md_replace OLD NEW: the old one fails, another comes.
md_replace() {
    echo faulty >"/sys/block/md_t/md/dev-${1#/dev/}/state"
    until_true 20 md_drops "$1"
    number "$2" >/sys/block/md_t/md/new_dev
    echo recover >/sys/block/md_t/md/sync_action 2>/dev/null || true
}

md_drops() {
    echo remove >"/sys/block/md_t/md/dev-${1#/dev/}/state" 2>/dev/null || true
    missing "/sys/block/md_t/md/dev-${1#/dev/}"
}

# fresh: four fresh ones, and one more.
fresh() {
    local index
    losetup -D
    disks=()
    for index in 0 1 2 3; do disks+=("$(part "m$index")"); done
    new=$(part new)
}

# fill DEVICE PERCENT: the front of it has data that does not pack.
fill() {
    local bytes
    bytes=$(($(blockdev --getsize64 "$1") / 100 * $2))
    dd if=/dev/urandom of="$1" bs=1M count=$((bytes / 1048576)) oflag=direct status=none
    sync
}

# begin KIND PERCENT: an array, so full; it is $array.
begin() {
    fresh
    case $1 in
    md) md_begin "${disks[@]}" && array=/dev/md_t ;;
    log)
        local list
        list=$(printf -- ' --device %s' "${disks[@]}")
        # shellcheck disable=SC2086 # a list of words
        "$HOSTFTL" create v.toml --layer log:parity=yes $list --json >/dev/null
        serve_ublk v.toml
        array=$device
        ;;
    esac
    fill "$array" "$2"
}

end() {
    case $1 in
    md) md_end ;;
    log) stop && "$HOSTFTL" delete v.toml --force >/dev/null && rm -f v.toml ;;
    esac
}

replace() {
    case $1 in
    md) md_replace "${disks[1]}" "$new" ;;
    log) "$HOSTFTL" device replace v.toml 1 "$new" --force >/dev/null ;;
    esac
}

whole() {
    case $1 in
    md) md_whole ;;
    log) [ "$("$HOSTFTL" status v.toml --json | jq '.space.degraded_bytes')" = 0 ] ;;
    esac
}

# heal KIND PERCENT: appends the seconds, and the MB that the new device got.
heal() {
    begin "$1" "$2"
    local start before
    before=$(written "$1")
    start=$(date +%s.%N)
    replace "$1"
    until_true 300 whole "$1"
    echo "$start $(date +%s.%N) $(($(written "$1") - before))" | awk '{ print $2 - $1, $3 / 1e6 }' >>"heal.$1.$2"
    end "$1"
}

# p99: of a host that writes at a rate for 6 s, in milliseconds.
p99() {
    fio --name=h --filename="$array" --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=4 --size=24m \
        --time_based --runtime=6 --rate_iops=150 --output-format=json --output=h.json >/dev/null
    jq '.jobs[0].write.clat_ns.percentile["99.000000"] / 1e6' h.json
}

# beside KIND: appends p99 before, p99 while a device is made anew, and the MB that it got a second.
beside() {
    begin "$1" 60
    local quiet busy before
    quiet=$(p99)
    before=$(written "$1")
    replace "$1"
    busy=$(p99)
    echo "$quiet $busy $(($(written "$1") - before))" | awk '{ print $2 / $1, $3 / 6e6 }' >>"beside.$1"
    until_true 300 whole "$1"
    end "$1"
}

# middle FILE COLUMN
middle() {
    awk -v c="$2" '{ print $c }' "$1" | sort -g | awk '{ v[NR] = $1 } END { printf "%.4g", v[int((NR + 1) / 2)] }'
}

for round in $(seq "$rounds"); do
    for kind in md log; do
        heal $kind 10
        heal $kind 60
        beside $kind
    done
done
for kind in md log; do
    echo "$kind: 10 % full $(middle heal.$kind.10 1) s and $(middle heal.$kind.10 2) MB written to the new device;" \
        "60 % full $(middle heal.$kind.60 1) s and $(middle heal.$kind.60 2) MB; beside a host" \
        "$(middle beside.$kind 2) MB/s, its p99 $(middle beside.$kind 1) x that of quiet"
done | tee figures
echo "medians of $rounds rounds, devices of $size: 10 % full, log takes" \
    "$(awk -v l="$(middle heal.log.10 1)" -v m="$(middle heal.md.10 1)" 'BEGIN { printf "%.2f", l / m }') of md's time"
