#!/usr/bin/env bash
# Installs missing tools on Debian or Ubuntu: setup.sh [build|wheel|bench|test]. `build` needs Rust and
# a C compiler, `wheel` also Python, `bench` also NBD servers, and `test`, the default, everything that
# the tests use. Quiet and instant when everything is there. Without root it
# names the missing packages: a missing client skips its tests with a clear line, a missing compiler
# is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
for_what=${1:-test}

have() { command -v "$1" >/dev/null 2>&1; }

say() { echo "setup: $*" >&2; }

# Prints the packages of the tools that are missing.
missing_packages() {
    local tool
    for tool in $(tools); do
        case $tool in
        cc) have cc || echo gcc libc6-dev ;;
        curl) have curl || have wget || have cargo || echo curl ca-certificates ;;
        qemu-io) have qemu-io || echo qemu-utils ;;
        nbdcopy) have nbdcopy || echo libnbd-bin ;;
        nbdfuse) have nbdfuse || nbdfuse_package ;;
        fusermount3) have fusermount3 || echo fuse3 ;;
        mkfs.ext4) have mkfs.ext4 || echo e2fsprogs ;;
        losetup) have losetup || echo util-linux ;;
        browser)
            have chromium-headless-shell || have chromium || have google-chrome || browser_package
            ;;
        python) python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3 python3-venv ;;
        *) have "$tool" || echo "$tool" ;;
        esac
    done
}

# Prints the tools that the target needs.
tools() {
    echo cc curl
    case $for_what in
    build) ;;
    wheel) echo python ;;
    bench) echo fio qemu-io nbdkit jq ;;
    test)
        echo fio qemu-io nbdkit nbdcopy jq openssl nbdfuse fusermount3 mkfs.ext4 losetup browser python
        ;;
    *)
        say "unknown target $for_what; there are: build, wheel, bench, test"
        exit 2
        ;;
    esac
}

# nbdfuse has its own package on newer releases and is part of libnbd-bin on older ones.
nbdfuse_package() {
    if apt-cache show nbdfuse 2>/dev/null | grep -q '^Package: nbdfuse$'; then
        echo nbdfuse
    else
        echo libnbd-bin
    fi
}

# The browser without a window is a package of its own on newer releases of Debian.
browser_package() {
    if apt-cache show chromium-headless-shell 2>/dev/null | grep -q '^Package: '; then
        echo chromium-headless-shell
    else
        echo chromium
    fi
}

install_missing() {
    local packages
    packages=$(missing_packages | sort -u | xargs)
    [ -n "$packages" ] || return 0
    if ! have apt-get; then
        say "missing: $packages. Not Debian or Ubuntu: install them with your package manager."
    elif [ "$(id -u)" != 0 ]; then
        say "missing: $packages. Tests that need them are skipped. Install them: sudo apt-get install $packages"
    else
        apt-get update -qq >/dev/null 2>&1 || say "apt-get update failed; is there a network?"
        packages=$(missing_packages | sort -u | xargs)
        say "installing $packages"
        # shellcheck disable=SC2086 # a list of words
        apt_install $packages && return 0
        for package in $packages; do
            apt_install "$package" || say "apt-get can't install $package: tests that need it are skipped"
        done
    fi
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" \
        >/dev/null 2>&1
}

install_rust() {
    local url=https://sh.rustup.rs
    say "Rust is missing; fetching rustup from $url"
    if have curl && curl -sSf --proto '=https' "$url" -o /tmp/rustup-init.sh.$$ ||
        have wget && wget -qO /tmp/rustup-init.sh.$$ "$url"; then
        sh /tmp/rustup-init.sh.$$ -y --quiet --no-modify-path --profile minimal \
            --default-toolchain none >&2 || true
        rm -f /tmp/rustup-init.sh.$$
    else
        rm -f /tmp/rustup-init.sh.$$
        say "can't fetch rustup (no curl or wget, or no network)"
    fi
    if ! have rustup && ! have cargo && [ "$(id -u)" = 0 ] && have apt-get; then
        say "trying apt-get install rustup"
        apt_install rustup || true
    fi
}

# The toolchain of rust-toolchain.toml, or a newer one that is already here without rustup.
check_rust() {
    local wanted found
    wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    if have rustup; then
        if ! rustup run "$wanted" cargo --version >/dev/null 2>&1; then
            say "fetching Rust $wanted"
            rustup toolchain install "$wanted" --profile minimal -c rustfmt -c clippy >&2 || {
                say "can't fetch Rust $wanted. With a network: rustup toolchain install $wanted"
                exit 1
            }
        fi
        return 0
    fi
    if ! have cargo; then
        say "Rust is missing. Install it: curl -sSf https://sh.rustup.rs | sh -s -- -y"
        exit 1
    fi
    found=$(cargo --version | cut -d' ' -f2)
    if [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n1)" != "$wanted" ]; then
        say "cargo $found is older than $wanted. Install a newer one: curl -sSf https://sh.rustup.rs | sh -s -- -y"
        exit 1
    fi
}

tools >/dev/null
install_missing
have rustup || have cargo || install_rust
check_rust
have cc || {
    say "a C compiler is missing and building needs one. Install it: sudo apt-get install gcc libc6-dev"
    exit 1
}
