#!/usr/bin/env bash
# Sockets and volumes that are in use or in the way get one clear line, and nothing is harmed.
source "$(dirname "$0")/lib.sh"
begin badinput "$@"
need nbdinfo

# refused WORD VOLUME ADDRESS: the server must not start, and its one line must say WORD.
refused() {
    local status=0
    timeout "$patience" "$hostftl" serve "$dir/$2.toml" --nbd "$3" >"$dir/out" 2>"$dir/err" || status=$?
    cat "$dir/out" "$dir/err"
    [ $status -ne 0 ] && [ $status -ne 124 ] || fail "serve $2 on $3 ended with status $status"
    [ $status -lt 128 ] || fail "serve $2 on $3 died of a signal"
    [ ! -s "$dir/out" ] || fail "serve $2 on $3 said something on stdout"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail "serve $2 on $3 said more or less than one line"
    grep -qi -- "$1" "$dir/err" || fail "serve $2 on $3 did not mention $1"
}

create
create other 64M
serve
refused "$sock" other "unix:$sock"
refused "$server" vol "unix:$dir/second.sock"
nbdinfo --size "$uri" || fail "the first server was disturbed"
[ ! -e "$dir/second.sock" ] || fail "a refused server left its socket"

crash
[ -S "$sock" ] || fail "a killed server should leave a stale socket for this test"
serve
nbdinfo --size "$uri" || fail "the stale socket was not replaced"
stop

echo precious >"$dir/file"
refused "$dir/file" vol "unix:$dir/file"
[ "$(cat "$dir/file")" = precious ] || fail "a file in the way was changed"
refused no-such-folder vol "unix:$dir/no-such-folder/nbd.sock"
refused tcp:localhost vol tcp:localhost
refused 107 vol "unix:$dir/$(printf 'x%.0s' {1..120})"
refused missing.toml missing "unix:$sock"
check
check other
ok "live, stale and impossible sockets, a second opener"
