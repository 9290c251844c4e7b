# The page of served volumes in a browser, on a desk and on a phone, in light and dark colours: with
# labels that contain markup, with a missing device, and over failures of the server.
source ./lib.sh
begin live log
need python3 qemu-io

"$hostftl" create "$dir/vol.toml" --device "$dir/a.img" --device "$dir/b.img" \
    --device "$dir/c.img" --size 64M --layer log:parity=yes --label '<script>alert(1)</script>'
"$hostftl" create "$dir/single.toml" --device "$dir/e.img" --size 64M --layer hard \
    --label "<img src=x onerror=alert(2)>"
uri="nbd+unix:///%3Cscript%3Ealert%281%29%3C/script%3E?socket=$sock"
serve vol
load="qemu-io -f raw -c 'write -P 7 0 8M' -c flush -c 'read -P 7 0 8M' '$uri'"
eval "$load"
stop
rm "$dir/c.img"
serve vol --degraded --wait-devices 0
stop

shots=()
[ -z "${SHOTS:-}" ] || shots=(--shots "$SHOTS")
status=0
said=$(python3 "$root/tests/page/live.py" "${shots[@]}" --load "$load >&2" "$hostftl" "$sock" \
    "$dir"/{vol,single}.toml) || status=$?
echo "$said"
[ $status -ne 77 ] || skip "no browser is installed (see scripts/setup.sh)"
[ $status -eq 0 ] || fail "the page is not correct"
ok "$(tail -n 1 <<<"$said")"
