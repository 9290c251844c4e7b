# What the suites share, inside the guest. A suite ends with its last line: what it found.
# shellcheck shell=bash
set -euo pipefail
trap 'echo "failed in line $LINENO: $BASH_COMMAND"; tail -n 8 serve.err 2>/dev/null' ERR
server=
mkdir -p /run/t
cd /run/t

# The last line of a suite that this guest can't run.
skip() {
    echo "$1"
    exit 77
}

fail() {
    echo "$1"
    exit 1
}

# module NAME [OPTION…]: loads a module of the kernel, or skips.
module() {
    modprobe "$@" || skip "this kernel has no module $1"
}

need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || skip "$tool is missing (see tests/kernel/prepare.sh)"
    done
}

# until_true SECONDS COMMAND…: waits until it succeeds, ten times as long as a quiet machine may need.
until_true() {
    local tries seconds=$(($1 * 10))
    shift
    for tries in $(seq $((seconds * 10))); do
        ! "$@" || return 0
        sleep 0.1
    done
    echo "not true after $seconds s ($tries tries): $*"
    return 1
}

# serve VOLUME [OPTION…]: waits for the ready line.
serve() {
    "$HOSTFTL" serve "$1" --nbd unix:/run/t/nbd.sock "${@:2}" >serve.out 2>>serve.err &
    server=$!
    until_true 60 is_ready || { cat serve.err && fail "the server is not ready"; }
}

# serve_ublk VOLUME [OPTION…]: as a block device, which is $device.
serve_ublk() {
    "$HOSTFTL" serve "$1" --ublk "${@:2}" >serve.out 2>>serve.err &
    server=$!
    until_true 60 is_ready || { cat serve.err && fail "the server is not ready"; }
    device=$(sed -n 's/^ready //p' serve.out | head -n 1)
}

is_ready() {
    kill -0 "$server" && grep -qs '^ready ' serve.out
}

# Whether a process has ended.
gone() {
    ! kill -0 "$1" 2>/dev/null
}

missing() {
    [ ! -e "$1" ]
}

# Ends the server as a service manager would.
stop() {
    kill -TERM "$server"
    wait "$server" || { cat serve.err && fail "the server ended with status $?"; }
    server=
}

# drive SERIAL: the block device of the NVMe drive with that serial number, when it is there.
drive() {
    local one
    for one in /sys/class/nvme/nvme*; do
        [ "$(tr -d ' ' <"$one/serial")" != "$1" ] || echo "/dev/$(basename "$one")n1"
    done
}

# cut SECONDS: the guest loses its power that much later; the suite starts again with LIFE one higher.
cut() {
    echo "$1" >/out/cut.new
    mv /out/cut.new /out/cut
}
