# What the scripts beside this file share. A script sources it and calls `begin NAME LAYER`.
# shellcheck shell=bash
#
# Every script prints one line: ok, SKIP with the reason, or FAIL with the reason. What the tools said
# goes to $dir/log, whose end is shown after a FAIL.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
hostftl=${HOSTFTL:-$("$root/scripts/cargo.sh" where)/hostftl}
server=
# The server of a device: see `backing`.
back=
started=$SECONDS
# Seconds after which a wait fails. Only a hang takes as long, on a slow and busy machine too.
patience=300

# begin NAME LAYER: names the test and gives it a folder of its own.
begin() {
    name=$1
    layer=${2:-passthrough}
    dir=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-e2e.XXXXXX")
    log=$dir/log
    sock=$dir/nbd.sock
    uri="nbd+unix:///?socket=$sock"
    # For fio in the background, where a function would put a shell between: then $! is fio, and with
    # --thread there is only one process to kill.
    fio_base=(--ioengine=nbd "--uri=$uri" --random_generator=tausworthe64 --group_reporting
        --thread --verify_fatal=1 --name=e2e)
    exec 3>&1 >>"$log" 2>&1
    trap finish EXIT
    trap 'exit 130' INT TERM
}

# Runs at the end, however it comes: stops what was started, and says what came of it.
finish() {
    local status=$?
    trap - EXIT
    set +e
    declare -F cleanup >/dev/null && cleanup
    lose_backing 2>/dev/null
    [ -z "$server" ] || { kill -KILL "$server"; wait "$server"; } 2>/dev/null
    if [ $status -ne 0 ] && [ $status -ne 77 ]; then
        printf 'FAIL %s %s: %s\n' "$name" "$layer" "${why:-status $status in: $last}" >&3
        sed 's/^/    | /' "$log" | tail -n 40 >&3
    fi
    rm -rf "$dir"
    [ $status -ne 77 ] || status=0
    exit $status
}

ok() {
    trap - DEBUG
    printf 'ok   %s %s: %s (%s s)\n' "$name" "$layer" "$1" $((SECONDS - started)) >&3
    exit 0
}

skip() {
    printf 'SKIP %s %s: %s\n' "$name" "$layer" "$1" | tee -a "${HOSTFTL_SKIPPED:-/dev/null}" >&3
    exit 77
}

fail() {
    why=$1
    exit 1
}

# The command that runs, for the FAIL line.
last=
set -o functrace
trap 'last=$BASH_COMMAND' DEBUG

# await REASON COMMAND…: repeats the command until it succeeds; fails with the reason when it never does.
await() {
    local reason=$1 end=$((SECONDS + patience))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "$reason (waited $patience s)"
        sleep 0.05
    done
}

# need TOOL…: skips the test without them.
need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || skip "$tool is not installed"
    done
}

# need_filter NAME…: skips the test without these filters of nbdkit.
need_filter() {
    local filter
    for filter in "$@"; do
        nbdkit --filter="$filter" null --dump-plugin >/dev/null || skip "nbdkit has no filter $filter"
    done
}

# backing ARGUMENTS…: nbdkit with them, on the socket of a device, instead of the one before.
backing() {
    lose_backing
    rm -f "$dir/back.sock"
    nbdkit -f -U "$dir/back.sock" "$@" &
    back=$!
    await "nbdkit $* does not listen" test -S "$dir/back.sock"
}

# lose_backing: the server of the device dies and forgets what it had not flushed.
lose_backing() {
    [ -n "$back" ] || return 0
    kill -KILL "$back"
    wait "$back" || true
    back=
}

# create [VOLUME [SIZE]]: a volume over a sparse file.
create() {
    local volume=${1:-vol}
    "$hostftl" create "$dir/$volume.toml" --device "$dir/$volume.img" --size "${2:-256M}" \
        --layer "$layer"
}

# What the next server is told after a crash: that no client is left from before.
go_on=()

# serve [VOLUME]: serves it and waits for the ready line.
serve() {
    # The last server's line must not be taken for this one's.
    rm -f "$dir/serve.out"
    "$hostftl" serve "$dir/${1:-vol}.toml" --nbd "unix:$sock" "${go_on[@]}" "${@:2}" \
        >"$dir/serve.out" &
    server=$!
    go_on=()
    ready
}

# Waits for the ready line of the server that was just started. The line of an earlier server must be
# removed before the start.
ready() {
    await "the server is not ready" is_ready
}

is_ready() {
    grep -qs '^ready nbds\?[+:]' "$dir/serve.out" && return 0
    kill -0 "$server" 2>/dev/null || fail "the server ended before it was ready"
    return 1
}

# Ends the server as a service manager would; it must close the volume clean.
stop() {
    kill -TERM "$server"
    ended "$server" || fail "the server ended with status $? after SIGTERM"
    server=
    [ ! -e "$sock" ] || fail "the socket is still there after a clean end"
}

# ended PID: waits until a process that was asked to end has ended. Returns its status. A process that
# hangs is a failure: the log shows where its threads wait.
ended() {
    local pid=$1 end=$((SECONDS + patience)) task
    until is_over "$pid" || [ $SECONDS -ge $end ]; do sleep 0.05; done
    if ! is_over "$pid"; then
        for task in "/proc/$pid/task/"*; do
            echo "hangs: $(cat "$task/comm"): $(cat "$task/wchan") $(cat "$task/syscall")"
        done 2>/dev/null || true
        kill -KILL "$pid"
        fail "process $pid hangs: it has not ended $patience s after it was asked to"
    fi
    wait "$pid"
}

# is_over PID: whether a process has ended. It is a zombie then, until it is waited for.
is_over() {
    case "$(cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null)" in '' | Z) ;; *) return 1 ;; esac
}

# Ends the server as a crash would. Its clients are over too: the next one takes the plain name.
crash() {
    # It may have ended by itself already, because its layer failed.
    kill -KILL "$server" || true
    wait "$server" || true
    server=
    go_on=(--reuse-export-name)
}

# check [VOLUME]: the volume's own check, when nobody serves it.
check() {
    "$hostftl" check "$dir/${1:-vol}.toml" || fail "hostftl check found something"
}

# nbd_fio ARGUMENTS…: fio against the server; only its complaints go to the log.
nbd_fio() {
    fio "${fio_base[@]}" "$@" >"$dir/nbd_fio.out" 2>&1 && return 0
    grep -E '^(fio|crc32c|verify|e2e)|err=' "$dir/nbd_fio.out" || cat "$dir/nbd_fio.out"
    return 1
}
