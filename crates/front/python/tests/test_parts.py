"""Traces, drives, layers, theory, advice, charts, and the type stubs of rows."""

import ast
import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, TRACE

import hostftl
from hostftl import theory


def test_a_trace_is_what_the_command_line_says_of_it(cli):
    trace = hostftl.Trace.open(TRACE)
    info = trace.info()
    assert info == cli.answer("trace", "info", TRACE)
    columns = trace.to_numpy()
    writes = columns["op"] == hostftl.OPS.index("write")
    assert columns["lba"].shape == (info.requests,) and writes.sum() == info.writes.requests
    assert int(columns["sectors"][writes].sum()) * 512 == info.writes.bytes
    assert trace.to_numpy(limit=3)["t_ns"].tolist() == columns["t_ns"][:3].tolist()
    assert trace.to_numpy(compact=True)["lba"].max() < columns["lba"].max()
    assert pickle.loads(pickle.dumps(trace)) == trace


def test_options_of_a_trace_are_words(cli, tmp_path):
    assert str(hostftl.Trace.open(TRACE, dev=0, loop=2)) == f"{TRACE}:dev=0,loop=2"
    path = tmp_path / "a.csv"
    hostftl.Trace.write(path, {"lba": np.arange(500) * 8, "sectors": np.full(500, 8)})
    trace = hostftl.Trace.open(path, compress=2.9)
    with pytest.warns(hostftl.TraceWarning, match="2.9"):
        row = hostftl.run(trace, layer="log")
    options = ["--layers", "log", "--warm", "new"]
    assert [row] == cli.rows(f"{path}:compress=2.9", *options)
    synth = hostftl.Trace.synth(size="4k", span="64m", count=4000)
    assert str(synth) == SMALL
    assert str(hostftl.Trace.synth("like", volume="w66", scale=0.01)) == "synth:like:w66,scale=0.01"


def test_a_trace_of_arrays_is_read_as_it_was_written(tmp_path):
    random = np.random.default_rng(1)
    columns = {
        "t_ns": np.arange(100) * 1000,
        "op": random.integers(0, 2, 100),
        "lba": random.integers(0, 1000, 100) * 8,
        "sectors": np.full(100, 8),
        "saved": np.where(np.arange(100) % 2, 50, 255),
    }
    for name in ("a.csv", "a.csv.zst", "a.hft"):
        found = hostftl.Trace.write(tmp_path / name, columns).to_numpy()
        for key in ("t_ns", "op", "lba", "sectors"):
            assert found[key].tolist() == columns[key].tolist(), (name, key)
        is_known = (columns["op"] == 1) & (columns["saved"] == 50)
        assert found["saved"].tolist() == np.where(is_known, 50, 255).tolist()


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"lba": [1]}, "lba, sectors"),
        ({"lba": [1], "sectors": [8, 8]}, "one shape"),
        ({"lba": [-1], "sectors": [8]}, "whole numbers"),
        ({"lba": [0.5], "sectors": [8]}, "whole numbers"),
        ({"lba": [0], "sectors": [0]}, "request 0"),
        ({"lba": [0], "sectors": [8], "op": [4]}, "request 0: op"),
        ({"lba": [0], "sectors": [8], "op": [300]}, "op: a number is above 255"),
        ({"lba": [0], "sectors": [8], "saved": [101]}, "percentage"),
        ({"lba": [2**63], "sectors": [8]}, "8 EiB"),
    ],
)
def test_arrays_that_are_no_trace_leave_no_file(tmp_path, columns, text):
    with pytest.raises(hostftl.UsageError, match=text):
        hostftl.Trace.write(tmp_path / "a.csv", columns)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_left_alone(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("mine")
    with pytest.raises(hostftl.StudyError, match="exists"):
        hostftl.Trace.write(path, {"lba": [0], "sectors": [8]})
    assert path.read_text() == "mine"
    with pytest.raises(hostftl.StudyError, match="nowhere"):
        hostftl.Trace.open(tmp_path / "nowhere.csv")
    with pytest.raises(hostftl.UsageError, match="format"):
        hostftl.Trace.open(TRACE, format="none")


def test_a_drive_is_a_text_with_facts():
    drive = hostftl.Drive("qlc-64k", capacity="2g", plp=False)
    assert str(drive) == "qlc-64k:capacity=2g:plp=false"
    (device,) = drive.devices
    assert device.map_unit_bytes == 65536 and device.exported_bytes == drive.exported_bytes
    assert len(hostftl.Drive("4*tlc:capacity=2g").devices) == 4
    assert hostftl.run(SMALL, drive).drive == str(drive)
    assert "hatl-2g" in hostftl.drives()
    with pytest.raises(hostftl.UsageError, match="did you mean `qlc-64k`"):
        hostftl.Drive("qlc-65k")
    with pytest.raises(hostftl.UsageError, match="capacity"):
        hostftl.Drive("qlc-64k", capacity="much")
    two = hostftl.Drive("tlc", capacity="2GB"), hostftl.Drive("tlc", capacity="2GiB")
    assert [drive.devices[0].exported_bytes for drive in two] == [1_999_998_976, 2 << 30]


def test_layers_are_those_of_the_command_line(cli):
    assert hostftl.layers() == cli.json("layers")
    assert hostftl.layer("log", gc="greedy", parity=True) == "log:gc=greedy:parity=yes"
    with pytest.raises(hostftl.UsageError, match="did you mean `hard`"):
        hostftl.layer("hrad")


def test_an_advice_is_that_of_the_command_line(cli):
    drive, layers = "hatl-1g:capacity=256m", ["hard", "hatl-auto"]
    limits = {"fill": 0.3, "ram": "16m", "load": "1TB/day"}
    advice = hostftl.advise(SMALL, drive, layers=layers, seeds=1, **limits)
    options = ["--layers", "hard,hatl-auto", "--fill", "30%", "--ram", "16m", "--seeds", "1"]
    assert advice == cli.answer("advise", SMALL, "--drive", drive, *options, "--load", "1TB/day")
    assert repr(advice).startswith(f"Advice(verdict='{advice.verdict}'")
    code, text = cli.fails("advise", SMALL, "--drive", "4*tlc")
    with pytest.raises(hostftl.UsageError) as told:
        hostftl.advise(SMALL, "4*tlc")
    assert (str(told.value), told.value.code) == (text, code)


def test_closed_forms_take_arrays():
    alphas = np.array([1.1, 1.25, 1.5])
    assert theory.fifo(alphas).round(4).tolist() == [5.6775, 2.6927, 1.7158]
    assert theory.greedy(alphas[:, None], [16, 64, 256]).shape == (3, 3)
    assert theory.random(1.25) == pytest.approx(5.0)
    assert theory.d_choices(1.1, 10, 64) == pytest.approx(5.450, abs=1e-3)
    skew = [(0.8, 0.2), (0.2, 0.8)]
    assert theory.mixed_greedy(1.25, 64, skew) == pytest.approx(2.936, abs=1e-3)
    assert theory.separated(1.25, skew)[1].round(3)[0] == 1.616
    assert theory.mean_value([0.25] * 4, 4)[0] == pytest.approx(16 / 7)
    for wrong in (1.0, 0.5, float("nan"), float("inf")):
        with pytest.raises(hostftl.UsageError, match="alpha"):
            theory.fifo(wrong)
    with pytest.raises(hostftl.UsageError, match="shares"):
        theory.mixed_fifo(1.25, [(0.8, 0.2)])


def test_pictures_show_what_rows_say(tmp_path):
    pytest.importorskip("matplotlib")
    table = hostftl.compare(SMALL, "hatl-2g", ["none", "hard"], warm=["new", "fill=50%"])
    axes = hostftl.pictures.programmed(table)
    ends = {}
    for bar in axes.patches:
        place = round(bar.get_y() + bar.get_height() / 2)
        ends[place] = max(ends.get(place, 0), bar.get_x() + bar.get_width())
    assert list(ends.values()) == pytest.approx([row.waf_total for row in table])
    axes.figure.savefig(tmp_path / "waf.png")
    lines = hostftl.pictures.latencies(table).get_lines()
    assert len(lines) == 4 and lines[0].get_ydata()[2] == table[0].latency_ns.write.p99 / 1e6
    assert hostftl.pictures.over_time(table[0]).get_ylabel() == "waf"


def test_a_cause_has_one_colour_on_the_page_and_in_pictures():
    pictures, crates = hostftl.pictures, Path(__file__).parents[3]
    style = (crates / "study" / "report" / "src" / "style.css").read_text()
    light = re.findall(r"--c\d: (#[0-9a-f]{6});", style)[: len(pictures.COLOURS)]
    charts = (crates / "front" / "cli" / "src" / "commands" / "compare" / "charts.rs").read_text()
    causes = re.search(r"const CAUSES: \[&str; \d+\] =\s*\[([^]]*)\]", charts).group(1)
    assert pictures.COLOURS == dict(zip(re.findall(r'"([a-z]+)"', causes), light, strict=True))
    programmed = hostftl.compare(SMALL, "hatl-2g", ["none"])[0].programmed_bytes
    assert set(pictures.WORDS) == set(programmed)


def test_type_stubs_name_what_rows_have():
    stub = Path(inspect.getfile(hostftl.Row)).with_suffix(".pyi")
    tree = ast.parse(stub.read_text())
    classes = {it.name: it for it in tree.body if isinstance(it, ast.ClassDef)}

    def fields(name):
        lines = [it for it in classes[name].body if isinstance(it, ast.AnnAssign)]
        return {it.target.id: ast.unparse(it.annotation) for it in lines}

    def agree(value, name):
        keys = {key.replace("-", "_") for key in value} - {"from"}
        assert keys == set(fields(name)), name
        for key, kind in fields(name).items():
            part = getattr(value, key)
            inner = kind.removesuffix(" | None").removeprefix("list[").removesuffix("]")
            for one in part if isinstance(part, list) else [part]:
                if inner in classes and one is not None:
                    agree(one, inner)
                elif inner in ("int", "float", "str", "bool") and one is not None:
                    assert isinstance(one, (int, float) if inner == "float" else eval(inner)), key

    mix = "synth:mix:size=4k,span=64m,count=2000,flush=64"
    agree(hostftl.run(mix, "hatl-2g", "hard", warm="fill=10%"), "Row")
    table = hostftl.compare(SMALL, "hatl-2g", ["none", "pblk"], warm="new")
    agree(table.holes[0], "Hole")
