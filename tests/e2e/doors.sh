#!/usr/bin/env bash
# The other ways in: a TCP port, TLS with and without a client's certificate, a socket handed over.
source "$(dirname "$0")/lib.sh"
begin doors "$@"
need nbdinfo nbdcopy openssl curl

# sign NAME: NAME-cert.pem and NAME-key.pem, from the authority in $dir/tls.
sign() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" \
        -keyout "$1-key.pem" -out request.pem
    openssl x509 -req -in request.pem -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
        -extfile names -out "$1-cert.pem"
}

# open_door ARGUMENTS…: serves and waits; the URI is in $uri.
open_door() {
    rm -f "$dir/serve.out"
    "$@" >"$dir/serve.out" &
    server=$!
    ready
    uri=$(sed -n 's/^ready //p' "$dir/serve.out")
}

volume=$dir/vol.toml
create
head -c 24M /dev/urandom >"$dir/in.img"

open_door "$hostftl" serve "$volume" --nbd tcp:127.0.0.1:0
[[ $uri == nbd://127.0.0.1:* ]] || fail "the ready line says $uri"
nbdcopy --connections=4 --flush "$dir/in.img" "$uri"
stop

mkdir "$dir/tls" "$dir/anonymous"
(
    cd "$dir/tls"
    echo 'subjectAltName=DNS:localhost,IP:127.0.0.1' >names
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj /CN=authority -keyout ca-key.pem -out ca-cert.pem
    sign server
    sign client
)
cp "$dir/tls/ca-cert.pem" "$dir/anonymous"
for verify in '' --tls-verify-peer; do
    # shellcheck disable=SC2086 # No option at all is meant when it is empty.
    open_door "$hostftl" serve "$volume" --nbd tcp:127.0.0.1:0 --tls-certificates "$dir/tls" $verify \
        --http 127.0.0.1:0 2>"$dir/err"
    [[ $uri == nbds://* ]] || fail "the ready line says $uri"
    ! nbdinfo --size "nbd${uri#nbds}" || fail "a client without TLS is served"
    nbdcopy --connections=3 "$uri?tls-certificates=$dir/tls" "$dir/out.img"
    cmp -n $((24 << 20)) "$dir/in.img" "$dir/out.img" || fail "TLS gives other data"
    nbdcopy --flush "$dir/out.img" "$uri?tls-certificates=$dir/tls"
    if [ -z "$verify" ]; then
        nbdinfo --size "$uri?tls-certificates=$dir/anonymous" || fail "a certificate was wanted"
    else
        ! nbdinfo --size "$uri?tls-certificates=$dir/anonymous" || fail "no certificate was wanted"
    fi
    page=$(sed -n 's|.*page at \(https://.*\)/$|\1|p' "$dir/err")
    known=(--cert "$dir/tls/client-cert.pem" --key "$dir/tls/client-key.pem")
    status() { curl -sf --max-time 20 --cacert "$dir/tls/ca-cert.pem" "$@" "$page/status.json"; }
    status "${known[@]}" | grep '"state": "online"' || fail "the page has no state over TLS"
    ! curl -sf --max-time 20 "http${page#https}/status.json" || fail "the page is served without TLS"
    if [ -z "$verify" ]; then
        status || fail "the page needs a certificate"
    else
        ! status || fail "the page needs no certificate"
    fi
    stop
done

# A device behind a server with TLS: what is written comes back, the server dies and comes again, and
# neither a client without TLS nor one that trusts another authority gets in.
if [ "$layer" = log ] && command -v nbdkit && nbdkit --dump-config | grep -q tls=yes; then
    store() {
        nbdkit -f -U "$dir/store.sock" --tls=require --tls-certificates="$dir/tls" \
            --tls-verify-peer file "$dir/store.img" &
        store=$!
        await "nbdkit does not start" test -S "$dir/store.sock"
    }
    truncate -s 128M "$dir/store.img"
    store
    mkdir "$dir/strange"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj /CN=strange -keyout "$dir/strange/ca-key.pem" -out "$dir/strange/ca-cert.pem"
    at="socket=$dir/store.sock"
    for wrong in "nbd+unix:///?$at" "nbds+unix:///?$at&tls-certificates=$dir/strange" \
        "nbds+unix:///?$at&tls-certificates=$dir/anonymous" \
        "nbds+unix:///?$at&tls-certificates=$dir/tls&tls-hostname=another"; do
        ! "$hostftl" create "$dir/far.toml" --device "$wrong" --layer log 2>"$dir/err" ||
            fail "a volume is made on $wrong"
        grep -qi 'tls\|certificate' "$dir/err" || fail "the error for $wrong does not say why"
    done
    "$hostftl" create "$dir/far.toml" --layer log \
        --device "nbds+unix:///?$at&tls-certificates=$dir/tls"
    open_door "$hostftl" serve "$dir/far.toml" --nbd "unix:$dir/far.sock"
    nbdcopy --flush "$dir/in.img" "$uri"
    kill -9 "$store"
    rm -f "$dir/store.sock"
    sleep 0.2
    store
    nbdcopy "$uri" "$dir/far.img"
    cmp -n $((24 << 20)) "$dir/in.img" "$dir/far.img" || fail "a device with TLS gives other data"
    stop
    kill "$store"
fi

# A name: the client's own is taken, and another's is not.
open_door "$hostftl" serve "$volume" --nbd tcp:127.0.0.1:0 --tls-certificates "$dir/tls" \
    --tls-verify-peer --tls-allow client
nbdinfo --size "$uri?tls-certificates=$dir/tls" || fail "a client with the right name is refused"
stop
open_door "$hostftl" serve "$volume" --nbd tcp:127.0.0.1:0 --tls-certificates "$dir/tls" \
    --tls-verify-peer --tls-allow somebody 2>"$dir/err"
! nbdinfo --size "$uri?tls-certificates=$dir/tls" || fail "a client with another name is served"
stop
grep -q 'client.*not allowed' "$dir/err" || fail "no line says that a name was not allowed"

# SIGHUP reads certificates again: those of another authority, and then none that can be used.
open_door "$hostftl" serve "$volume" --nbd tcp:127.0.0.1:0 --tls-certificates "$dir/tls" 2>"$dir/err"
nbdinfo --size "$uri?tls-certificates=$dir/tls"

(
    cd "$dir/tls"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj /CN=another -keyout ca-key.pem -out ca-cert.pem
    sign server
)
hang_up() { # WORDS: asks for the certificates to be read again, and waits for what comes of that
    kill -HUP "$server"
    await "after SIGHUP no line has \"$1\"" grep -q "$1" "$dir/err"
}
hang_up 'certificates reloaded'
nbdinfo --size "$uri?tls-certificates=$dir/tls" || fail "the new certificates are not used"
! nbdinfo --size "$uri?tls-certificates=$dir/anonymous" || fail "the old certificates are still used"
echo broken >"$dir/tls/server-cert.pem"
hang_up 'the previous ones stay in use'
nbdinfo --size "$uri?tls-certificates=$dir/tls" || fail "certificates that are broken are used"
stop

if command -v systemd-socket-activate; then
    rm -f "$dir/serve.out"
    systemd-socket-activate -l "$dir/handed.sock" "$hostftl" serve "$volume" --nbd systemd \
        >"$dir/serve.out" &
    server=$!
    await "systemd-socket-activate does not listen" test -S "$dir/handed.sock"
    nbdcopy "nbd+unix:///?socket=$dir/handed.sock" "$dir/again.img"
    cmp "$dir/out.img" "$dir/again.img" || fail "the socket handed over gives other data"
    stop
    [ -S "$dir/handed.sock" ] || fail "the socket of the service manager was removed"
fi
# libnbd hands a socket over too, and removes its name before it ends the server.
timeout "$patience" nbdinfo --size -- [ "$hostftl" serve "$volume" --nbd systemd ] >"$dir/size" ||
    fail "nbdinfo can't start the server itself"

"$hostftl" serve "$volume" --nbd systemd 2>"$dir/err" && fail "it serves without a socket"
grep -q LISTEN_FDS "$dir/err" || fail "the error does not name LISTEN_FDS"
# The address of a container: it is served, with a warning.
"$hostftl" serve "$volume" --nbd tcp:0.0.0.0:0 >"$dir/out" 2>"$dir/err" &
everywhere=$!
until grep -q '^ready' "$dir/out"; do kill -0 $everywhere || fail "0.0.0.0 is refused"; sleep 0.05; done
kill -TERM $everywhere
wait $everywhere || fail "a server on all addresses does not stop"
grep -q 'connections from every network' "$dir/err" || fail "nothing warns of an open port"
"$hostftl" serve "$volume" --nbd tcp:127.0.0.1:0 --tls-certificates "$dir" 2>"$dir/err" &&
    fail "it serves without certificates"
grep -q "$dir/server-cert.pem" "$dir/err" || fail "the error does not name the missing file"
check
ok "TCP, TLS with and without clients' certificates, sockets handed over"
