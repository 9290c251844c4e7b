#!/usr/bin/env bash
# What a placement policy in Python costs: SepBIT of the Python tests beside the built-in one, on the
# same workload, in turns. Five runs, median (lowest–highest) of the ratio of their times; the bar is 3,
# with a WAF within 1 %.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/lib.sh
runs=${BENCH_RUNS:-5}
work=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

wheel=$(scripts/wheel.sh | tail -n 1)
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/pip" install --quiet numpy pytest "$wheel"
cat >"$work/place.py" <<'PY'
import sys
import time

import hostftl
from test_placement import SepBit

for _ in range(int(sys.argv[1])):
    took, waf = [], []
    for rule in (SepBit(), "sepbit"):
        begun = time.perf_counter()
        waf.append(hostftl.place(sys.argv[2], rule, rounds=2, segment=1024).waf)
        took.append(time.perf_counter() - begun)
    if abs(waf[0] / waf[1] - 1) > 0.01:
        sys.exit(f"WAF {waf[0]} in Python, {waf[1]} built in")
    print(took[0] / took[1], took[1], waf[0])
PY
load=synth:zipf:size=4k,span=1g,count=2000000
PYTHONPATH=crates/front/python/tests "$work/env/bin/python" "$work/place.py" "$runs" "$load" >"$work/said"
echo "placement in Python ($load, two rounds)"
echo "  time      $(cut -d ' ' -f 1 "$work/said" | spread 2) × the built-in SepBIT's," \
    "$(cut -d ' ' -f 2 "$work/said" | spread 2) s"
echo "  WAF       $(tail -n 1 "$work/said" | cut -d ' ' -f 3) both"
