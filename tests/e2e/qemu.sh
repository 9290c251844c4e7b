#!/usr/bin/env bash
# qemu-io patterns: writes, reads, zeroes, discards, flush and FUA at every alignment.
source "$(dirname "$0")/lib.sh"
begin qemu "$@"
need qemu-io

# io COMMAND…: runs them on one connection; a pattern that differs is a failure.
io() {
    local args=() command
    for command in "$@"; do
        args+=(-c "$command")
    done
    qemu-io -f raw -t none "${args[@]}" "$uri" >"$dir/io.out" || fail "qemu-io failed: $*"
    cat "$dir/io.out"
    ! grep -Eiq 'verification failed|error' "$dir/io.out" || fail "qemu-io: a pattern differs: $*"
}

create
serve
io 'write -P 0xaa 0 64k' 'read -P 0xaa 0 64k' \
    'write -P 0x11 512 512' 'read -P 0xaa 0 512' 'read -P 0x11 512 512' 'read -P 0xaa 1k 63k' \
    'write -P 0x22 1000 24' 'read -P 0x22 1000 24' 'read -P 0x11 512 488' 'read -P 0xaa 1k 1k' \
    'write -P 0x33 1000k 7M' 'read -P 0x33 1000k 7M' 'read -P 0x33 3M 512'
io 'write -f -P 0x44 20M 1M' 'write -z 20M 256k' 'read -P 0 20M 256k' \
    'read -P 0x44 20736k 768k' 'discard 20992k 256k' 'read -P 0 20992k 256k' \
    'write -z -u 20M 1M' 'read -P 0 20M 1M' 'flush'
io 'write -P 0x55 32M 3584' 'discard 33556480 512' 'read -P 0 33556480 512' \
    'read -P 0x55 32M 2048' 'read -P 0x55 33556992 1024' 'flush'
io 'aio_write -P 0x61 40M 64k' 'aio_write -P 0x62 41M 1M' 'aio_write -P 0x63 42M 512' \
    'aio_write -z 43M 4k' 'aio_flush' 'read -P 0x61 40M 64k' 'read -P 0x62 41M 1M' \
    'read -P 0x63 42M 512' 'read -P 0 43M 4k'
stop
check
serve
io 'read -P 0xaa 2k 62k' 'read -P 0x22 1000 24' 'read -P 0x33 1000k 7M' 'read -P 0 20M 1M' \
    'read -P 0x55 33556992 1024' 'read -P 0x62 41M 1M'
stop
ok "patterns, zeroes, discards and FUA, the same after a clean stop"
