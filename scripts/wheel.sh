#!/usr/bin/env bash
# The Python package: `wheel.sh` builds its wheel into target/wheels; `wheel.sh test [ARG…]` builds it,
# installs it into a fresh virtual environment and runs its tests there, with ARGs for pytest; `--all`
# is one of them, for tests that need Dask and Ray (300 MB). Python
# is $PYTHON, or python3, 3.11 or newer. Without Python or PyPI the tests are skipped with a line.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
python=${PYTHON:-python3}
target=$(dirname "$(scripts/cargo.sh where)")
work=$target/python
wheels=$target/wheels
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

# lacks WHY: the end of a build, or a skip of the tests.
lacks() {
    if [ "$job" = test ]; then
        echo "SKIP python: $1" | tee -a "${HOSTFTL_SKIPPED:-/dev/null}"
        exit 0
    fi
    echo "wheel: $1" >&2
    exit 1
}

# environment FOLDER PACKAGE…: a virtual environment that has the packages.
environment() {
    local folder=$1
    shift
    rm -rf "$folder"
    "$python" -m venv "$folder" >/dev/null 2>&1 ||
        lacks "$python can't make a virtual environment; mend: apt-get install python3-venv"
    "$folder/bin/pip" install --quiet --retries 2 --timeout 20 "$@" ||
        lacks "pip can't install $*; is there a network?"
}

build() {
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        lacks "$python is missing or older than 3.11; mend: apt-get install python3 python3-venv"
    [ -x "$work/tools/bin/maturin" ] || environment "$work/tools" 'maturin>=1.9.4,<2'
    rm -rf "$wheels"
    PATH="$work/tools/bin:$PATH" "$work/tools/bin/maturin" build --quiet --release \
        --manifest-path crates/front/python/Cargo.toml --target-dir "$target" --out "$wheels"
    wheel=$(ls "$wheels"/hostftl-*.whl)
}

job=${1:-build}
case $job in
build)
    build
    echo "$wheel"
    ;;
test)
    shift
    build
    # What PyPI has comes first: what can't be had is a skip, a wheel that can't be installed is none.
    packages=(joblib jsonschema matplotlib numpy pandas polars pytest)
    case " $* " in *" --all "*) packages+=(distributed ray) ;; esac
    environment "$work/fresh" "${packages[@]}"
    "$work/fresh/bin/pip" install --quiet --no-index "$wheel"
    HOSTFTL=$(realpath "${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}")
    [ -x "$HOSTFTL" ] || { echo "wheel: $HOSTFTL is missing; build it with: make build" >&2; exit 1; }
    export HOSTFTL
    "$work/fresh/bin/python" -m pytest -p no:cacheprovider crates/front/python "$@"
    ;;
*)
    echo "wheel: there are: wheel.sh, wheel.sh test [ARG…]" >&2
    exit 2
    ;;
esac
