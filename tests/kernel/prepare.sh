#!/usr/bin/env bash
# Prepares what boots: a Debian backports kernel, QEMU and tools, unpacked from their packages into the
# user's cache folder and never installed. Prints that folder. Instant when everything is there.
# Exit code 77, with a line that says why, where the packages can't be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=boot.sh
source "$here/boot.sh"
# Another suite of the mirror may have a newer kernel; what is prepared of each is kept.
from=${HOSTFTL_KERNEL:-}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hostftl-kernel${from:+-$from}
# Another text of this script is another preparation.
stamp=$(sha256sum "$here/prepare.sh" | cut -c 1-16)

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=${HOSTFTL_MIRROR:-http://deb.debian.org/debian}
# What suites use and a machine may not have; what is installed is taken from the machine.
tools="busybox-static kmod udev jq nbd-client util-linux e2fsprogs xfsprogs btrfs-progs f2fs-tools nvme-cli cryptsetup-bin fio"

cannot() {
    echo "$*" >&2
    exit 77
}

# apt with lists of its own, so that the machine's sources stay as they are and root is not needed.
apt_options=()
apt() {
    local verb=$1
    shift
    "apt-$verb" "${apt_options[@]}" "$@"
}

set_up_apt() {
    local new=$1 codename
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    suite=$codename-backports
    mkdir -p "$new/apt/lists/partial" "$new/apt/cache/archives/partial"
    printf "deb [signed-by=$keyring] $mirror %s main\n" "$codename" "$suite" $from \
        >"$new/apt/sources.list"
    apt_options=(-qq -o Dir::Etc::sourcelist="$new/apt/sources.list" -o Dir::Etc::sourceparts=-
        -o Dir::State::lists="$new/apt/lists" -o Dir::Cache="$new/apt/cache"
        -o Dir::Cache::archives="$new/apt/cache/archives" -o APT::Sandbox::User=
        -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Debug::NoLocking=1)
    apt get update >&2 || cannot "the lists of $mirror can't be fetched (a network?)"
}

# missing [-t SUITE] PACKAGE…: these packages and what they depend on, so far as not installed.
missing() {
    apt get -s install --no-install-recommends "$@" | awk '$1 == "Inst" && $3 !~ /^\[/ { print $2 }'
}

# emulator: QEMU's packages of the same suite as the kernel, and what they need of any suite, each in the
# version that fits. An older one that is installed is left alone.
emulator() {
    apt get -s install --no-install-recommends -t "$suite" qemu-system-x86 |
        awk '$1 == "Inst" && $2 != "qemu-utils" {
            version = $3 ~ /^\[/ ? $4 : $3
            print $2 "=" substr(version, 2)
        }'
}

# unpack FOLDER PACKAGE…
unpack() {
    local folder=$1 package
    shift
    mkdir -p "$folder" "$folder.debs"
    [ $# -eq 0 ] || (cd "$folder.debs" && apt get download "$@" >&2) ||
        cannot "these packages can't be fetched from $mirror: $*"
    for package in "$folder.debs"/*.deb; do
        [ ! -e "$package" ] || dpkg-deb -x "$package" "$folder"
    done
    rm -rf "$folder.debs"
}

# merge FOLDER: /bin and the like go where a merged /usr has them; else they would hide the machine's links.
merge() {
    local top
    for top in bin sbin lib lib64; do
        [ -d "$1/$top" ] || continue
        mkdir -p "$1/usr/$top"
        cp -a "$1/$top/." "$1/usr/$top/"
        rm -r "${1:?}/$top"
    done
}

# field FILE OFFSET: a 32 bit little-endian number.
field() {
    od -An -tu4 -j "$2" -N 4 "$1" | tr -d ' '
}

# The kernel inside a bzImage, found by its setup header: QEMU starts that without unpacking it.
extract() {
    local image=$1 sectors at
    sectors=$(od -An -tu1 -j $((0x1f1)) -N 1 "$image" | tr -d ' ')
    at=$(((sectors + 1) * 512 + $(field "$image" $((0x248)))))
    tail -c +$((at + 1)) "$image" | head -c "$(field "$image" $((0x24c)))" >"$2.packed" || true
    case $(od -An -tx1 -N 4 "$2.packed" | tr -d ' ') in
    28b52ffd) zstd -qdc "$2.packed" >"$2" 2>/dev/null || true ;;
    fd377a58) xz -dc --single-stream "$2.packed" >"$2" 2>/dev/null || true ;;
    *) cannot "the kernel of $image is compressed in a way that is not known here" ;;
    esac
    rm "$2.packed"
    [ "$(head -c 4 "$2" | tail -c 3)" = ELF ] || cannot "there is no kernel in $image"
}

prepare() {
    local new=$1 kernel version image
    [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] && [ -e "$keyring" ] ||
        cannot "the kernel tier needs Debian on amd64, or its keyring ($keyring)"
    for tool in od xz zstd; do
        command -v "$tool" >/dev/null || cannot "$tool is not installed (see scripts/setup.sh)"
    done
    set_up_apt "$new"
    kernel=$(apt cache depends linux-image-amd64/"${from:-$suite}" | awk '$2 ~ /^linux-image-/ { print $2 }')
    [ -n "$kernel" ] || cannot "${from:-$suite} of $mirror has no linux-image-amd64"
    echo "kernel tier: fetching $kernel, QEMU and tools (about 150 MB, once)" >&2
    # shellcheck disable=SC2046 # a list of words: newer ones come in parts of the same version
    unpack "$new/kernel" "$kernel" $(apt cache depends "$kernel" |
        awk -v of="${kernel#linux-image}" '$2 ~ "^linux-" && index($2, of) { print $2 }')
    [ -d "$new/kernel/lib/modules" ] || mv "$new/kernel/usr/lib" "$new/kernel/lib"
    # shellcheck disable=SC2046 # lists of words
    unpack "$new/qemu" $(emulator)
    # shellcheck disable=SC2046,SC2086
    unpack "$new/tools" $(missing $tools)
    merge "$new/tools"
    version=$(ls "$new/kernel/lib/modules")
    image=$new/kernel/boot/vmlinuz-$version
    [ -e "$image" ] || image=$new/kernel/lib/modules/$version/vmlinuz
    extract "$image" "$new/vmlinux"
    modules depmod "$new" -b "$new/kernel" "$version"
    rm -rf "$new/apt"
    echo "$version" >"$new/version"
    echo "$stamp" >"$new/stamp"
}

mkdir -p "$cache"
exec 9>"$cache.lock"
flock 9
if [ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ]; then
    new=$(mktemp -d "$cache.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    prepare "$new"
    rm -rf "$cache"
    mv "$new" "$cache"
    trap - EXIT
fi
echo "$cache"
