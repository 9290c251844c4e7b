# A `log` volume over four files, served, under fio. To be sourced.

scripts/cargo.sh build --release --quiet -p hostftl-cli
hostftl=${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}
work=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/hostftl-bench.XXXXXX")
server=
cleanup() {
    [ -z "$server" ] || { kill -KILL "$server"; wait "$server"; } 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

# volume SIZE: a new one, with parity, of four devices of that size.
volume() {
    rm -f "$work"/v.toml* "$work"/d? "$work/new" "$work/more"
    local devices=()
    for at in 0 1 2 3; do devices+=(--device "$work/d$at"); done
    "$hostftl" create "$work/v.toml" "${devices[@]}" --size "$1" --layer log:parity=yes >/dev/null
}

serve() {
    # The last server's line must not be taken for this one's.
    rm -f "$work/out"
    "$hostftl" serve "$work/v.toml" --nbd "unix:$work/s" --reuse-export-name "$@" >"$work/out" 2>"$work/err" &
    server=$!
    until grep -qs '^ready' "$work/out"; do
        kill -0 "$server" || { cat "$work/err" >&2; exit 1; }
        sleep 0.02
    done
}

# end SIGNAL: the server.
end() {
    kill "-$1" "$server"
    wait "$server" || true
    server=
}

# What fio measured, without what else it says.
load() {
    fio --name=load --ioengine=nbd "--uri=nbd+unix:///?socket=$work/s" --thread --output-format=json \
        "$@" | sed -n '/^{/,$p'
}

# of FILTER: from the status, which is an error of its own while the volume lacks something.
of() { { "$hostftl" status "$work/v.toml" --json 2>/dev/null || true; } | jq -r "$1"; }

each() {
    for _ in $(seq "${BENCH_RUNS:-5}"); do "$@"; done
}
