# The shell commands of README.md, as typed: each runs here, runs in a guest (tests/kernel/suites/readme.sh),
# or is listed below with the reason why it does not run. The advice prints what README.md shows.
source ./lib.sh
begin readme log
need python3

# typed: the commands of the indented blocks and of the code in the text, one a line, without output,
# comments and continuations.
typed() {
    python3 - "$root/README.md" <<'PYTHON'
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
blocks = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", text, flags=re.MULTILINE)
commands = []
for block in blocks:
    lines = re.sub(r"\\\n", " ", block).split("\n")
    lines = [line[4:] if line.startswith("    ") else line for line in lines]
    # In a block with prompts all other lines are output.
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    commands += [re.sub(r"\s{2,}#.*", "", line) for line in lines]
rest = re.sub(r"^    .*\n", "\n", text, flags=re.MULTILINE)
commands += re.findall(r"`((?:hostftl|make|cargo|scripts/)[^`]* [^`]*)`", rest)
for command in commands:
    command = re.sub(r"\s+", " ", command).strip()
    if command:
        print(command)
PYTHON
}

# shown: the lines that README.md prints below its advice, up to the first "...".
shown() {
    sed -n '/^    \$ hostftl advise/,/^    \.\.\.$/p' "$root/README.md" |
        sed -e '1,/[^\\]$/d' -e '/^    \.\.\.$/d' -e 's/^    //' -e '/^$/d'
}

bin=$dir/bin
mkdir "$bin"
ln -s "$hostftl" "$bin/hostftl"
export PATH=$bin:$PATH
ran=0 elsewhere=0
while read -r command; do
    case $command in
    "hostftl advise "*)
        (cd "$root" && eval "$command") >"$dir/advice"
        shown >"$dir/shown"
        [ -s "$dir/shown" ] || fail "README.md shows no output of its advice"
        while IFS= read -r line; do
            grep -qxF -- "$line" "$dir/advice" || fail "the advice does not print: $line"
        done <"$dir/shown"
        ran=$((ran + 1))
        ;;
    "hostftl demo" | "hostftl layers" | "hostftl models")
        (cd "$dir" && eval "$command") >>"$dir/other"
        ran=$((ran + 1))
        ;;
    # It runs until it is ended: here, after it has shown a volume that is served.
    "hostftl top")
        create watched 64M
        serve watched
        (cd "$dir" && eval "exec $command") >"$dir/top" &
        top=$!
        await "hostftl top does not show the volume" grep -qs watched "$dir/top"
        kill -INT "$top"
        ended "$top" || fail "hostftl top ended with status $? after SIGINT"
        stop
        ran=$((ran + 1))
        ;;
    # The figures of docs/busy.svg: several minutes.
    "hostftl compare traces/mariadb-oltp-head.csv.zst --compact --drive hatl-2g "*)
        elsewhere=$((elsewhere + 1))
        ;;
    # The first runs `hostftl demo`, the second this script, and the last builds the program of the others.
    "make demo" | "make test" | "cargo install --locked --path crates/front/cli")
        elsewhere=$((elsewhere + 1))
        ;;
    # They need root, disks and the ublk driver.
    "hostftl create vol.toml --device /dev/"* | "hostftl serve vol.toml --ublk &" | \
        "mkfs.ext4 /dev/hostftl/vol && "* | "hostftl status vol.toml" | \
        "hostftl device replace vol.toml 1 /dev/"* | "hostftl wait vol.toml")
        grep -qxF -- "$command" "$root/tests/kernel/suites/readme.sh" ||
            fail "tests/kernel/suites/readme.sh does not run: $command"
        elsewhere=$((elsewhere + 1))
        ;;
    # The package is built and installed by tests/e2e/package.sh, in a folder instead of the system.
    "make dist" | "sudo apt install ./target/dist/hostftl_"*)
        elsewhere=$((elsewhere + 1))
        ;;
    *) fail "no test runs this command of README.md: $command" ;;
    esac
done < <(typed)
[ $ran -ge 2 ] && [ $elsewhere -ge 6 ] || fail "too few commands were found: $ran and $elsewhere"
ok "$ran commands as typed, $elsewhere in other tests"
