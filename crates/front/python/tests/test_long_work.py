"""A study releases the interpreter's lock, and Ctrl-C or the caller can cancel it."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import LONG, SMALL

import hostftl


def test_others_work_meanwhile_and_progress_can_end_it():
    shares, ticks, over = [], 0, threading.Event()

    def tick():
        nonlocal ticks
        while not over.is_set():
            ticks += 1
            time.sleep(0.001)

    def look(share):
        shares.append(share)
        if share > 0 and len(shares) > 5:
            raise StopIteration("that is enough")

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        with pytest.raises(StopIteration, match="enough"):
            hostftl.run(LONG, progress=look)
    finally:
        over.set()
        thread.join()
    assert shares == sorted(shares) and 0 < shares[-1] < 1
    assert ticks > 10, "the lock was free"


def test_an_interrupt_ends_a_study_in_this_process(interruptible):
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hostftl.compare(LONG, warm=["new", "steady"])
    assert time.monotonic() - begin < 60


def test_ctrl_c_ends_a_program(interruptible):
    program = f"import hostftl; print('on', flush=True); hostftl.run({LONG!r}, warm='steady')"
    ran = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert ran.stdout.readline() == "on\n"
    time.sleep(0.5)
    ran.send_signal(signal.SIGINT)
    _, told = ran.communicate(timeout=300)
    assert ran.returncode == -signal.SIGINT and "KeyboardInterrupt" in told


def test_studies_at_the_same_time_are_those_of_one_after_the_other():
    seeds = range(4)
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda seed: hostftl.run(SMALL, layer="hard", seed=seed), seeds))
    assert at_once == [hostftl.run(SMALL, layer="hard", seed=seed) for seed in seeds]
