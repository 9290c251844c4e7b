# The pages of a study and of a paper in a browser, as on a desk and on a phone: nothing clipped, cut
# or on top of one another, one colour for a name, tables that a click sorts, and not a word to anybody.
source ./lib.sh
begin page log
need python3

hot=synth:hotcold:size=4k,span=32m,count=5000,read=30
"$hostftl" compare $hot --drive "qlc-64k:capacity=128m,4*tlc:capacity=64m" --export 50% \
    --layers none,hard,log:compress=none:superpage=256k:spare=15,raid5 --closed-loop 16 \
    --warm fill=70%,steady --html "$dir/study.html" >"$dir/study.txt"
"$hostftl" compare $hot,compress=67% --drive qlc-64k:capacity=128m --layers none,hard,log:spare=20 \
    --closed-loop 16 --warm fill --seeds 3 --html "$dir/seeds.html" >"$dir/seeds.txt"
"$hostftl" advise $hot,iops=500 --drive qlc-64k:capacity=256m --layers hard,hatl-auto,log:superpage=256k \
    --seeds 1 --export 50% --max-latency 9x --html "$dir/advice.html" >"$dir/advice.txt"
"$hostftl" paper olive --quick --html "$dir/paper.html" >"$dir/paper.txt"
"$hostftl" trace info synth:zipf:count=20000,iops=1000,read=30 --html "$dir/trace.html" >"$dir/trace.txt"

shots=()
[ -z "${SHOTS:-}" ] || shots=(--shots "$SHOTS")
status=0
said=$(python3 "$root/tests/page/look.py" "${shots[@]}" \
    "$dir"/{study,advice,seeds,paper,trace}.html) || status=$?
echo "$said"
[ $status -ne 77 ] || skip "no browser is installed (see scripts/setup.sh)"
[ $status -eq 0 ] || fail "a page is not as it should be"
ok "$(tail -n 1 <<<"$said")"
