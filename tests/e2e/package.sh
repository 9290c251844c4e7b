# The package, made from this build, is installed into a clean root, and serves a volume from there:
# package.sh LAYER
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin package log

need dpkg-deb dpkg fio
HOSTFTL=$hostftl "$root/scripts/dist.sh" "$dir/dist" | tee "$dir/dist.out"
grep -q '^parts: .*, 0 findings$' "$dir/dist.out" || fail "licences or sources are not as deny.toml wants"
deb=$(echo "$dir"/dist/hostftl_*.deb)
clean=$dir/clean

# A static program needs nothing of the root; another one gets its libraries, as the package says.
dpkg-deb -f "$deb" Depends | tee "$dir/depends"
mkdir -p "$clean/var/lib/dpkg/updates" "$clean/var/lib/dpkg/info" "$clean/dev"
touch "$clean/var/lib/dpkg/status"
if [ "$(id -u)" = 0 ]; then
    dpkg --root="$clean" --force-depends --force-script-chrootless -i "$deb"
    state=$(dpkg-query --admindir="$clean/var/lib/dpkg" -W -f '${Status}' hostftl)
    [ "$state" = "install ok installed" ] || fail "dpkg says of the package: $state"
    (cd "$clean" && md5sum --quiet -c var/lib/dpkg/info/hostftl.md5sums)
else
    dpkg-deb -x "$deb" "$clean"
fi

for file in usr/bin/hostftl usr/share/man/man1/hostftl-serve.1.gz usr/share/doc/hostftl/copyright \
    usr/lib/systemd/system/hostftl@.service usr/lib/tmpfiles.d/hostftl.conf \
    usr/share/bash-completion/completions/hostftl usr/lib/hostftl/attach usr/lib/udev/rules.d/60-hostftl.rules \
    etc/hostftl; do
    [ -e "$clean/$file" ] || fail "the package has no /$file"
done
gzip -dc "$clean/usr/share/man/man1/hostftl-create.1.gz" | grep -q -- '-layer' || fail "no option in the manual"
# Each unit starts the program that is there.
grep -h '^ExecStart=/usr' "$clean"/usr/lib/systemd/system/*.service | sed 's/^ExecStart=\([^ ]*\).*/\1/' |
    while read -r program; do [ -x "$clean$program" ] || [ -x "$program" ] || exit 1; done ||
    fail "a unit starts a program that is not there"
bash -c "source '$clean/usr/share/bash-completion/completions/hostftl' && complete -p hostftl"

# The root has its own /proc, which goes with the program.
enter='mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/hostftl "$@"'
mkdir -p "$clean/proc"
if [ "$(id -u)" = 0 ] && unshare --mount sh -c 'mount -t proc proc "$0"' "$clean/proc"; then
    { ldd "$clean/usr/bin/hostftl" || true; } | grep -oE '/[^ ]+' | while read -r library; do
        install -D "$(realpath "$library")" "$clean$library"
    done
    inside=(unshare --mount sh -c "$enter" "$clean")
    place=
else
    inside=("$clean/usr/bin/hostftl")
    place=$clean
fi
mkdir -p "$clean/srv" "$clean/run"
"${inside[@]}" --version
"${inside[@]}" --version | grep -q '^formats superblock [0-9]*, .*log [0-9]' || fail "no formats in --version"
"${inside[@]}" create "$place/etc/hostftl/data.toml" --device "$place/srv/data.img" --size 128M --layer "$layer"
exec 4>"$dir/serve.out"
"${inside[@]}" serve "$place/etc/hostftl/data.toml" --nbd "unix:$place/run/data.sock" >&4 &
server=$!
ready
uri="nbd+unix:///?socket=$clean/run/data.sock"
fio_base=("${fio_base[@]/#--uri=*/--uri=$uri}")
nbd_fio --rw=randwrite --bs=4k-64k --size=16m --verify=crc32c --iodepth=8
kill -TERM "$server"
ended "$server" || fail "the server ended with status $?"
server=
"${inside[@]}" check --data "$place/etc/hostftl/data.toml"
if [ "$(id -u)" = 0 ]; then
    dpkg --root="$clean" --force-script-chrootless -r hostftl
    [ ! -e "$clean/usr/bin/hostftl" ] || fail "the program is there after its removal"
    [ -e "$clean/srv/data.img" ] && [ -e "$clean/etc/hostftl/data.toml" ] || fail "a volume went with the package"
fi
ok "made, installed into a clean root, served from there, removed; $(grep -c . "$clean/../dist/SHA256SUMS") files"
