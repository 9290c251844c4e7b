# Boots a guest under QEMU's emulation, which needs no special hardware. Sourced by run.sh.
# shellcheck shell=bash

# initrd CACHE FILE: busybox, what the root needs of modules in the order to load them, and `init`.
initrd() {
    local cache=$1 file=$2 root release module path plain
    root=$(mktemp -d)
    release=$(cat "$cache/version")
    mkdir "$root"/{bin,proc,sys,dev,host,cache,memory,root,modules}
    cp "$(tool "$cache" busybox)" "$root/bin/busybox"
    cp "$here/init" "$root/init"
    chmod +x "$root/init"
    for module in virtio_pci 9pnet_virtio 9p overlay; do
        modules modprobe "$cache" -d "$cache/kernel" -S "$release" --show-depends "$module" || return 1
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$root/modules/paths"
    while read -r path; do
        plain=$(basename "$path" | sed 's/\.\(xz\|zst\|gz\)$//')
        case $path in
        *.xz) xz -dc "$path" ;;
        *.zst) zstd -qdc "$path" ;;
        *) cat "$path" ;;
        esac >"$root/modules/$plain"
        echo "$plain" >>"$root/modules/order"
    done <"$root/modules/paths"
    (cd "$root" && find . | bin/busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$file"
    rm -rf "$root"
}

# modules NAME CACHE [ARGUMENT…]: a program of kmod, of the machine or of the cache.
modules() {
    local name=$1 cache=$2
    shift 2
    if PATH=$PATH:/usr/sbin:/sbin command -v "$name" >/dev/null; then
        PATH=$PATH:/usr/sbin:/sbin "$name" "$@"
        return
    fi
    (
        export LD_LIBRARY_PATH=$cache/tools/usr/lib/x86_64-linux-gnu
        exec -a "$name" "$cache/tools/usr/bin/kmod" "$@"
    )
}

# tool CACHE NAME: where a program is, of the machine or of the cache.
tool() {
    local folder
    PATH=$PATH:/usr/sbin:/sbin command -v "$2" && return 0
    for folder in usr/bin usr/sbin; do
        [ ! -x "$1/tools/$folder/$2" ] || { echo "$1/tools/$folder/$2" && return 0; }
    done
    return 1
}

# boot CACHE OUT SECONDS [QEMU ARGUMENTS…]: starts the guest; its process is $guest. What is written to
# $OUT/monitor goes to QEMU's monitor.
boot() {
    local cache=$1 out=$2 seconds=$3 qemu=qemu-system-x86_64 libraries=
    shift 3
    if [ -x "$cache/qemu/usr/bin/$qemu" ]; then
        qemu=$cache/qemu/usr/bin/$qemu
        libraries=$cache/qemu/usr/lib/x86_64-linux-gnu
    fi
    [ -p "$out/monitor" ] || mkfifo "$out/monitor"
    exec 8<>"$out/monitor"
    LD_LIBRARY_PATH=$libraries timeout --foreground -k 5 "$seconds" "$qemu" -L "$cache/qemu/usr/share/qemu" \
        -L "$cache/qemu/usr/share/seabios" -L /usr/share/qemu -L /usr/share/seabios \
        -M q35 -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m "${MEMORY:-1536M}" \
        -nodefaults -no-user-config -display none -serial "file:$out/console" -monitor stdio \
        -kernel "$cache/vmlinux" -initrd "$out/initrd.gz" \
        -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr" \
        -device isa-debug-exit,iobase=0xf4,iosize=0x04 \
        -fsdev local,id=f0,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=f0,mount_tag=host \
        -fsdev "local,id=f1,path=$out,security_model=none" -device virtio-9p-pci,fsdev=f1,mount_tag=out \
        -fsdev "local,id=f2,path=$cache,security_model=none,readonly=on" \
        -device virtio-9p-pci,fsdev=f2,mount_tag=cache \
        -device virtio-rng-pci "$@" <&8 >"$out/qemu" 2>&1 &
    guest=$!
}

# over: waits for the guest; the exit code of its suite, 124 after its time, 125 if it died.
over() {
    local code=0
    wait "$guest" || code=$?
    exec 8>&-
    case $code in
    124 | 137) return 124 ;;
    esac
    [ $((code & 1)) -eq 1 ] || return 125
    return $((code >> 1))
}
