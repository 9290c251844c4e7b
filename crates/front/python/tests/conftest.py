"""Shared fixtures: the command line for comparison of figures, and small workloads."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

#: Random writes of 4 KiB over 64 MiB; a study of them is fast.
SMALL = "synth:uniform:size=4k,span=64m,count=4000"
#: A workload whose study takes minutes.
LONG = "synth:uniform:size=4k,span=1g,count=100000000"
#: The trace that the project ships.
TRACE = str(Path(__file__).parents[4] / "traces" / "mariadb-oltp-head.csv.zst")


class Cli:
    """The command ``hostftl``."""

    def json(self, *args: str):
        """Returns the output of a command with ``--json``."""
        return json.loads(self._run(*args, "--json", check=True).stdout)

    def text(self, *args: str) -> str:
        """Returns the text output of a command."""
        return self._run(*args, check=True).stdout

    def answer(self, *args: str):
        """Returns the JSON output without the identity of the program."""
        around = {"kind", "schema", "version", "commit", "command"}
        return {key: it for key, it in self.json(*args).items() if key not in around}

    def rows(self, *args: str):
        """Returns the rows of ``compare``."""
        return self.json("compare", *args)["rows"]

    def fails(self, *args: str) -> tuple[int, str]:
        """Returns the exit code and the message of a command that fails."""
        ran = self._run(*args, check=False)
        assert ran.returncode != 0, ran.stdout
        return ran.returncode, ran.stderr.strip().removeprefix("hostftl: ")

    def _run(self, *args: str, check: bool):
        binary = os.environ["HOSTFTL"]
        return subprocess.run([binary, *args], capture_output=True, text=True, check=check)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also what needs hundreds of megabytes")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if "heavy" in item.keywords and not config.getoption("--all"):
            item.add_marker(pytest.mark.skip(reason="runs with: scripts/wheel.sh test --all"))


@pytest.fixture(scope="session")
def cli() -> Cli:
    return Cli()


@pytest.fixture
def interruptible():
    """Restores Python's own handler, in case the program was started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_runtest_logreport(report):
    """Prints a line for each skipped test, so that ``make test`` can count them."""
    path = os.environ.get("HOSTFTL_SKIPPED")
    if report.skipped and path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"SKIP python {report.nodeid}: {report.longrepr[2]}\n")
