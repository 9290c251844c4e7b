"""The cells of a sweep equal those of the command line byte for byte, whichever worker ran them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import hostftl

GRID = {
    "traces": "synth:uniform:size=4k,span=16m,count={1000,2000}",
    "drives": "hatl-1g:capacity=64m",
    "layers": ["none", "hard", "pblk"],
    "warm": "new",
    "closed_loop": 8,
    "seeds": 2,
}
#: Cells that take about a second each, so that a worker can be killed while it runs one.
SLOW = GRID | {"traces": "synth:uniform:size=4k,span=16m,count=400000", "layers": ["none", "hard"]}


def files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.fixture(scope="module")
def wanted(cli, tmp_path_factory):
    """Returns the cells of the command line."""
    folder = tmp_path_factory.mktemp("cli")
    lists = {key.replace("_", "-"): value for key, value in GRID.items()}
    plan = folder / "plan.toml"
    plan.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in lists.items()))
    told = cli.json("sweep", str(plan), "--out", str(folder / "cells"))
    assert (told["cells"], told["made"], told["failed"]) == (12, 12, 4)
    return files(folder / "cells")


def test_cells_are_those_of_the_command_line(wanted, tmp_path):
    cells = hostftl.sweep(GRID, out=tmp_path / "cells")
    assert files(tmp_path / "cells") == wanted
    columns = cells.to_numpy()
    assert len(cells) == 12 and sum(columns["failed"] != "") == 4
    assert columns["workload_count"].tolist()[::6] == ["1000", "2000"]
    assert columns["busy_ratio"][0] == 1 and columns["base"][2] == "passthrough"
    (hard,) = [it for it in cells.summary if it.layer == "hard" and "1000" in it.workload]
    assert hard.busy_ratio.seeds == 2 and hard.busy_ratio.half_interval > 0


@pytest.mark.parametrize("workers", ["threads", "processes", "joblib"])
def test_any_executor_makes_the_same_cells(workers, wanted, tmp_path):
    if workers == "joblib":
        pytest.importorskip("joblib")
        from joblib.externals.loky import ProcessPoolExecutor as Loky

        pool = Loky(max_workers=2)
    elif workers == "processes":
        pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    else:
        pool = ThreadPoolExecutor(2)
    shares = []
    with pool:
        hostftl.sweep(GRID, out=tmp_path, executor=pool, progress=shares.append)
    assert files(tmp_path) == wanted
    assert shares[-1] == 1 and shares == sorted(shares)


def test_a_sweep_goes_on_where_it_was(wanted, tmp_path):
    def impatient(share):
        if share > 0:
            raise InterruptedError

    for _ in range(20):
        try:
            hostftl.sweep(GRID, out=tmp_path, executor=ThreadPoolExecutor(1), progress=impatient)
            break
        except InterruptedError:
            continue
    hostftl.sweep(GRID, out=tmp_path)
    assert files(tmp_path) == wanted


def test_what_makes_no_sense_is_said(tmp_path):
    with pytest.raises(hostftl.UsageError, match="no key 'layer'"):
        hostftl.sweep({"traces": "a.csv", "layer": "hard"}, out=tmp_path)
    with pytest.raises(hostftl.UsageError, match="did you mean `hard`"):
        hostftl.sweep(GRID | {"layers": "hrad"}, out=tmp_path)
    with pytest.raises(hostftl.StudyError, match="nowhere"):
        hostftl.sweep(GRID | {"traces": "/nowhere.csv"}, out=tmp_path)


def test_ctrl_c_ends_a_sweep(tmp_path, interruptible):
    code = f"import hostftl; print(1, flush=True); hostftl.sweep({SLOW | {'seeds': 500}!r}, out={str(tmp_path)!r})"
    ran = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ran.stdout.readline()
    time.sleep(1)
    ran.send_signal(signal.SIGINT)
    _, told = ran.communicate(timeout=300)
    assert b"KeyboardInterrupt" in told and ran.returncode != 0
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def kill_once(pids, folder, count):
    """Kills one of ``pids`` when ``count`` cells exist."""
    while len(list(folder.glob("*.parquet"))) < count:
        time.sleep(0.02)
    os.kill(pids[0], signal.SIGKILL)


@pytest.fixture
def slow(tmp_path_factory):
    """Returns the cells of the slow grid, run by threads."""
    folder = tmp_path_factory.mktemp("slow")
    hostftl.sweep(SLOW, out=folder)
    return files(folder)


@pytest.mark.heavy
def test_a_dask_worker_that_dies_costs_its_cell_only(slow, tmp_path):
    pytest.importorskip("distributed")
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            pids = list(client.run(os.getpid).values())
            killer = threading.Thread(target=kill_once, args=(pids, tmp_path, 1))
            killer.start()
            hostftl.sweep(SLOW, out=tmp_path, executor=client.get_executor())
            killer.join()
    assert files(tmp_path) == slow


@pytest.mark.heavy
def test_a_ray_worker_that_dies_costs_its_cell_only(slow, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    class Executor:
        def submit(self, function, *arguments):
            return ray.remote(function).remote(*arguments).future()

    try:
        pids = [ray.get(ray.remote(lambda: os.getpid()).remote())]
        killer = threading.Thread(target=kill_once, args=(pids, tmp_path, 1))
        killer.start()
        hostftl.sweep(SLOW, out=tmp_path, executor=Executor())
        killer.join()
    finally:
        ray.shutdown()
    assert files(tmp_path) == slow
