#!/usr/bin/env bash
# The shadow of a served volume: first the number of writes that it needs, then figures in the status,
# the metrics and on the page's data.
source "$(dirname "$0")/lib.sh"
begin shadow log
need fio jq curl

create vol 512M
serve vol --shadow none,auto --shadow-drive tlc --http "unix:$dir/http.sock"
shadow() { "$hostftl" status "$dir/vol.toml" --json | jq "$@"; }

shadow -e '.shadow.doubts[0] | test("too few writes: none")' || fail "no writes are no doubt"
nbd_fio --rw=randwrite --bs=64k --iodepth=32 --size=300M --io_size=100M
needs_more() {
    shadow -e '.shadow.doubts[0] | test("too few writes: .* GiB since the start, .* GiB needed")'
}
await "too few writes are no doubt" needs_more
shadow -e '.shadow.summary | test("no figures yet")' || fail "it has figures too early"

# The sample may have become smaller on a slow machine; then the figures started again.
for _ in {1..40}; do
    nbd_fio --rw=randwrite --bs=64k --iodepth=32 --size=300M --io_size=300M
    sleep 1.2
    if shadow -e '.shadow.doubts == []'; then break; fi
done
shadow '.shadow'
shadow -e '.shadow.doubts == []' || fail "it has doubts after many overwrites"
shadow -e '.shadow.candidates | map(.layer) | index("passthrough") == 0' || fail "none is missing"
shadow -e '[.shadow.candidates[] | select(.failed == null) | .waf >= 0.99] | all' ||
    fail "a write amplification is below 1"
shadow -e '.shadow.served_waf >= 1' || fail "the served layer has no figure"
"$hostftl" status "$dir/vol.toml" >"$dir/status"
cat "$dir/status"
grep -q 'shadow *since 20.* your drive wrote .* bytes a byte; without a layer it would have been' \
    "$dir/status" || fail "status has no sentence"
"$hostftl" status "$dir/vol.toml" --long | grep -q 'shadow of *model tlc' || fail "status --long"
get() { curl -sf --unix-socket "$dir/http.sock" "http://localhost$1"; }
get /metrics >"$dir/metrics"
grep -q 'hostftl_shadow_waf{.*candidate="passthrough"} ' "$dir/metrics" || fail "no metrics"
[ "$(grep -c '^hostftl_shadow_waf{' "$dir/metrics")" -le 4 ] || fail "more series than candidates"
get /status.json | jq -e '.[0].shadow.summary' || fail "the page has no figures"
if command -v promtool; then promtool check metrics <"$dir/metrics" || fail "promtool"; fi
stop

"$hostftl" serve "$dir/vol.toml" --nbd "unix:$sock" --shadow nosuch 2>"$dir/err" &&
    fail "an unknown layer is accepted"
grep -q "nosuch" "$dir/err" || fail "the error does not name the layer"
"$hostftl" serve "$dir/vol.toml" --nbd "unix:$sock" --shadow auto --shadow-drive nosuch \
    2>"$dir/err" && fail "an unknown drive is accepted"
grep -q "nosuch" "$dir/err" || fail "the error does not name the drive"
check
ok "figures after enough writes, in status, metrics and page"
