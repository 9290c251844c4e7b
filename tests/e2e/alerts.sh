#!/usr/bin/env bash
# Alert rules: their unit tests, and the metrics of a real array. A day without faults fires no alert.
# A device that is cut short fires alerts, which end after its replacement; so does an unclean shutdown.
source "$(dirname "$0")/lib.sh"
begin alerts log
need promtool curl fio python3
rules=$(realpath ../../packaging/monitoring)

promtool check rules "$rules/alerts.yml" || fail "the rules have findings"
promtool test rules "$rules/alerts.test.yml" "$rules/scrub.test.yml" || fail "the tests of the rules fail"

# scrape NAME: stores the metrics of the server.
scrape() {
    local port
    port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$dir/serve.err")
    curl -sf "http://127.0.0.1:$port/metrics" >"$dir/$1.txt" || fail "$1: no metrics"
    promtool check metrics <"$dir/$1.txt" || fail "$1: the metrics have findings"
}

# fires BEFORE FAULT AFTER ALERT…: a day with the metrics BEFORE, half an hour with FAULT and a day
# with AFTER. Exactly these alerts must fire ten minutes after the fault, and none a day later.
fires() {
    python3 - "$dir" "$rules" "$@" >"$dir/day.yml" <<'PY'
import pathlib
import sys

folder, rules, before, fault, after, *alerts = sys.argv[1:]


def samples(name):
    lines = pathlib.Path(folder, f"{name}.txt").read_text().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


parts = [(samples(before), 1440), (samples(fault), 30), (samples(after), 1440)]
print(f"rule_files: [{rules}/alerts.yml]")
print("evaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:")
for series in sorted(set().union(*(part for part, _ in parts))):
    # A value `ax2` stands for three samples, a gap `_x2` for two.
    values = " ".join(
        f"{part[series]}x{minutes - 1}" if series in part else f"_x{minutes}"
        for part, minutes in parts
    )
    print(f"  - series: '{series}'\n    values: {values}")
print("  promql_expr_test:")
for time, firing in (("1439m", []), ("1450m", alerts), ("2909m", [])):
    print('  - expr: group by (alertname) (ALERTS{alertstate="firing"})')
    print(f"    eval_time: {time}\n    exp_samples:", "" if firing else "[]")
    for alert in firing:
        print(f"    - labels: '{{alertname=\"{alert}\"}}'\n      value: 1")
PY
    promtool test rules "$dir/day.yml" || fail "$2: other alerts"
}

truncate -s 96M "$dir"/d{0..4}
"$hostftl" create "$dir/vol.toml" --device "$dir/d0" --device "$dir/d1" --device "$dir/d2" \
    --device "$dir/d3" --layer log:parity=yes
serve vol --metrics 127.0.0.1:0 2>"$dir/serve.err"
nbd_fio --rw=randwrite --bs=4k --iodepth=16 --size=24M --end_fsync=1
scrape clean

truncate -s 2M "$dir/d1"
nbd_fio --rw=read --bs=64k --iodepth=16 --size=24M
scrape short
"$hostftl" device replace "$dir/vol.toml" 1 "$dir/d4"
"$hostftl" wait "$dir/vol.toml"
scrape healed
fires clean short healed HostftlDegraded HostftlNoRedundancy HostftlDeviceErrors HostftlDeviceFailing

crash
serve vol --metrics 127.0.0.1:0 2>"$dir/serve.err"
scrape unclean
fires healed unclean unclean HostftlUncleanShutdown
stop
ok "alerts of a lost device and of an unclean shutdown fire and end, none on a day without faults"
