#!/usr/bin/env bash
# Makes what is given to others: a static program, its manual and completions, an archive, a .deb, a
# container file, a bill of materials and the notices of licences: dist.sh [FOLDER].
# HOSTFTL names a program that is there already; else one is built for musl, or where the target or
# its compiler can't be had, for this system, and a line says so. What this machine lacks the tool for
# is skipped with a line, and counted.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=scripts/cargo.sh
out=$(realpath -m "${1:-target/dist}")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
homepage=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
# The same input makes the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)}
export SOURCE_DATE_EPOCH
tree=
trap 'rm -rf "$tree"' EXIT

have() { command -v "$1" >/dev/null 2>&1; }

say() { echo "dist: $*"; }

skip() {
    printf 'SKIP dist %s: %s\n' "$1" "$2" | tee -a "${HOSTFTL_SKIPPED:-/dev/null}"
}

# The target of a static program, where it can be built here.
static_target() {
    local target=$machine-unknown-linux-musl
    if ! have musl-gcc && have apt-get && [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends musl-tools >&2 || true
    fi
    have musl-gcc || { skip static "musl-gcc is missing (Debian: musl-tools)" >&2 && return 1; }
    have rustup || { skip static "without rustup the target $target can't be had" >&2 && return 1; }
    rustup target add "$target" >&2 || { skip static "rustup can't fetch $target" >&2 && return 1; }
    echo "$target"
}

# Builds the program; prints where it is.
build() {
    local target
    if target=$(static_target); then
        CC_x86_64_unknown_linux_musl=musl-gcc CC_aarch64_unknown_linux_musl=musl-gcc \
            $cargo build --release -p hostftl-cli --target "$target" >&2
        echo "$(dirname "$($cargo where)")/$target/release/hostftl"
    else
        $cargo build --release -p hostftl-cli >&2
        echo "$($cargo where)/hostftl"
    fi
}

# What the program needs of the C library, in Debian's words; nothing of a static one.
depends() {
    local newest
    is_static && return 0
    newest=$(grep -aoE 'GLIBC_2\.[0-9]+' "$program" | sort -uV | tail -n 1)
    echo "libc6 (>= ${newest#GLIBC_}), libgcc-s1"
}

is_static() {
    # The loader's name is in every program that has one.
    ! grep -qaE '/lib(64)?/ld-(linux|musl)[^ ]*\.so' "$program"
}

# put MODE FILE PLACE
put() {
    install -D -m "$1" "$2" "$tree$3"
}

# The tree that the package and the archive have in common.
fill() {
    local page
    put 755 "$program" /usr/bin/hostftl
    for page in "$out"/man/*.1; do
        install -d -m 755 "$tree/usr/share/man/man1"
        gzip -9nc "$page" >"$tree/usr/share/man/man1/$(basename "$page").gz"
    done
    put 644 "$out/completions/hostftl.bash" /usr/share/bash-completion/completions/hostftl
    put 644 "$out/completions/_hostftl" /usr/share/zsh/vendor-completions/_hostftl
    put 644 "$out/completions/hostftl.fish" /usr/share/fish/vendor_completions.d/hostftl.fish
    for unit in packaging/systemd/*.service packaging/systemd/*.socket; do
        put 644 "$unit" "/usr/lib/systemd/system/$(basename "$unit")"
    done
    put 755 packaging/lib/attach /usr/lib/hostftl/attach
    put 644 packaging/udev/60-hostftl.rules /usr/lib/udev/rules.d/60-hostftl.rules
    put 644 packaging/systemd/hostftl.tmpfiles /usr/lib/tmpfiles.d/hostftl.conf
    for file in README.md docs/OPERATING.md docs/SEMANTICS.md LICENSE-MIT packaging/debian/copyright \
        "$out/third-party.txt" "$out/hostftl.cdx.json"; do
        put 644 "$file" "/usr/share/doc/hostftl/$(basename "$file")"
    done
    gzip -9nc CHANGELOG.md >"$tree/usr/share/doc/hostftl/changelog.gz"
    install -d -m 755 "$tree/etc/hostftl"
    chmod 644 "$tree"/usr/share/man/man1/* "$tree/usr/share/doc/hostftl/changelog.gz"
    find "$tree" -type d -exec chmod 755 {} +
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

archive() {
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        -C "$tree" -c usr | gzip -9n >"$out/hostftl-$version-$machine-linux.tar.gz"
}

# The package; maintainer scripts and fields are in packaging/debian.
deb() {
    local architecture=amd64 needs size script
    [ "$machine" != aarch64 ] || architecture=arm64
    have dpkg-deb || { skip deb "dpkg-deb is missing" && return; }
    needs=$(depends)
    size=$(du -sk "$tree" | cut -f 1)
    mkdir "$tree/DEBIAN"
    sed -e "s|@VERSION@|$version|" -e "s|@ARCHITECTURE@|$architecture|" -e "s|@SIZE@|$size|" \
        -e "s|@HOMEPAGE@|$homepage|" -e "s|@DEPENDS@|$needs|" -e '/^Depends: $/d' \
        packaging/debian/control >"$tree/DEBIAN/control"
    for script in postinst prerm postrm; do
        install -m 755 "packaging/debian/$script" "$tree/DEBIAN/$script"
    done
    (cd "$tree" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2 >DEBIAN/md5sums)
    dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/hostftl_${version}_$architecture.deb" >/dev/null
}

container() {
    local builder
    cp packaging/container/Containerfile "$out/Containerfile"
    is_static || { skip container "the program is not static, and the container has nothing else" && return; }
    for builder in podman buildah docker; do
        if have $builder; then
            $builder build -q -t "hostftl:$version" -f "$out/Containerfile" "$out" && return
            skip container "$builder can't build it here" && return
        fi
    done
    skip container "neither podman, buildah nor docker is installed; the file is in $out"
}

# Advisories, bans and what else our own check of licences and sources does not look at.
deny() {
    have cargo-deny || { skip cargo-deny "cargo-deny is not installed (cargo install cargo-deny)" && return; }
    if cargo deny --offline fetch db >/dev/null 2>&1; then
        $cargo deny --offline check
    else
        skip advisories "their database can't be had"
        $cargo deny --offline check licenses bans sources
    fi
}

program=${HOSTFTL:-$(build)}
target=$("$program" --version | sed -n 's/^target //p')
rm -rf "$out"
mkdir -p "$out/man" "$out/completions"
install -m 755 "$program" "$out/hostftl"
$cargo run --release --quiet -p xtask -- parts "$target" "$out"
"$program" man "$out/man"
"$program" completions bash >"$out/completions/hostftl.bash"
"$program" completions zsh >"$out/completions/_hostftl"
"$program" completions fish >"$out/completions/hostftl.fish"
tree=$(mktemp -d)
fill
archive
deb
container
deny
(cd "$out" && sha256sum hostftl hostftl.cdx.json third-party.txt *.tar.gz *.deb 2>/dev/null >SHA256SUMS || true)
is_static && say "the program is static" || say "the program needs this system's C library: $(depends)"
say "$out has $(cd "$out" && ls | xargs)"
