"""Studies have the figures of the command line to the last digit, and its error messages."""

import pickle

import numpy as np
import pytest
from conftest import SMALL, TRACE

import hostftl

GRID = [SMALL, "--drive", "hatl-2g,tlc:capacity=2g", "--layers", "none,hard,log", "--seed", "7"]


@pytest.fixture(scope="module")
def table():
    drives = ["hatl-2g", "tlc:capacity=2g"]
    return hostftl.compare(SMALL, drives, ["none", "hard", "log"], warm=["new", "fill=70%"], seed=7)


def test_a_table_is_that_of_the_command_line(cli, table, tmp_path):
    csv, parquet = tmp_path / "cli.csv", tmp_path / "cli.parquet"
    files = ["--csv", str(csv), "--parquet", str(parquet)]
    assert table.to_list() == cli.rows(*GRID, "--warm", "new,fill=70%", *files)
    assert len(table) == 12 and not table.holes
    table.write_csv(tmp_path / "python.csv")
    table.write_parquet(tmp_path / "python.parquet")
    assert (tmp_path / "python.csv").read_bytes() == csv.read_bytes()
    assert (tmp_path / "python.parquet").read_bytes() == parquet.read_bytes()


def test_judgements_are_those_of_the_command_line(cli):
    drive, layers = "qlc-64k:capacity=256m", ["none", "hard", "log"]
    asked = [SMALL, "--drive", drive, "--layers", ",".join(layers), "--warm", "fill=70%"]
    for limits, options in [({}, []), ({"min_speed": 100.0}, ["--min-speed", "100x"])]:
        table = hostftl.compare(SMALL, drive, layers, warm="fill=70%", **limits)
        assert table.judgements == cli.json("compare", *asked, *options)["judgements"]
    (judgement,) = table.judgements
    assert judgement.verdict is None
    assert all("speed" in layer.broken for layer in judgement.layers[1:])


def test_a_run_of_a_trace_is_that_of_the_command_line(cli):
    with pytest.warns(hostftl.TraceWarning, match=r"requests .* are split \([0-9]+ more"):
        row = hostftl.run(TRACE, "hatl-2g", "none", compact=True, closed_loop=8)
    options = ["--layers", "none", "--warm", "new", "--compact", "--closed-loop", "8"]
    (wanted,) = cli.rows(TRACE, "--drive", "hatl-2g", *options)
    assert row == wanted
    assert row.latency_ns.write.p99 == wanted["latency_ns"]["write"]["p99"]
    assert repr(row).startswith("Row(layer='passthrough', drive='hatl-2g', workload='/")


def test_defaults_are_those_of_the_command_line(cli):
    wanted = cli.rows(SMALL, "--warm", "new")
    assert hostftl.compare(SMALL, warm="new").to_list() == wanted
    assert [row["layer"] for row in wanted] == ["passthrough", "hard"]
    assert hostftl.STATES == ("new", "fill=70%", "steady", "self=70%")


def test_a_seed_makes_a_difference_and_the_same_seed_makes_none(table):
    again = hostftl.run(SMALL, "hatl-2g", "hard", seed=7)
    (row,) = table.where(layer="hard", drive="hatl-2g", warm="new")
    assert again.digest == row.digest
    assert hostftl.run(SMALL, "hatl-2g", "hard", seed=8).digest != row.digest


def test_several_seeds_come_to_what_the_command_line_says(cli, tmp_path):
    layers = ["hard", "hard:spare=10", "log"]
    with pytest.warns(hostftl.TraceWarning, match="spare=10: the export leaves more spare"):
        table = hostftl.compare(SMALL, "hatl-2g", layers, warm="fill=70%", seed=1, seeds=3)
    asked = [SMALL, "--drive", "hatl-2g", "--layers", ",".join(layers), "--warm", "fill=70%"]
    assert table.to_list() == cli.rows(*asked, "--seeds", "3")
    plan = tmp_path / "plan.toml"
    plan.write_text(f'traces = "{SMALL}"\ndrives = "hatl-2g"\nlayers = {layers}\nwarm = "fill=70%"\n')
    collect = ["--seeds", "3", "--collect", str(tmp_path / "all.csv")]
    told = cli.json("sweep", str(plan), "--out", str(tmp_path / "cells"), *collect)["summary"]
    for ours, theirs in zip(table.summary, told, strict=True):
        same = ("layer", "drive", "workload", "warm", "waf", "busy_ratio", "iops", "write_p99_ns")
        assert [ours[key] for key in same] == [theirs[key] for key in same]
    waf = [row.waf_total for row in table.where(layer="log")]
    assert table.summary[2].waf.mean == pytest.approx(np.mean(waf)) and table.summary[2].waf.seeds == 3
    assert table.summary[2].waf.deviation == pytest.approx(np.std(waf, ddof=1))
    text = " ".join(cli.text("compare", *asked, "--seeds", "3").split())
    assert text.count("do not differ") == len(table.alike)
    for pair in table.alike:
        one, other = pair.layers
        assert f"{one} and {other} do not differ in waf under {pair.workload} on hatl-2g" in text
        assert f"is {pair.interval[0]:.4f} to {pair.interval[1]:.4f}." in text
    both = pickle.loads(pickle.dumps(table)) + table
    assert len(both.summary) == 6 and both.summary[0] == table.summary[0]
    alone = hostftl.compare(SMALL, "hatl-2g", "hard", warm="new")
    assert alone.summary == [] and alone.alike == []
    with pytest.raises(hostftl.UsageError, match="1 to 1000"):
        hostftl.compare(SMALL, seeds=0)


def test_columns_are_arrays(table):
    columns = table.to_numpy()
    assert columns["layer"].tolist() == ["passthrough", "hard", "log"] * 4
    assert columns["requests"].dtype == np.int64 and set(columns["requests"]) == {4000}
    assert columns["conserved"].dtype == bool and columns["conserved"].all()
    assert columns["waf_total"].tolist() == [row.waf_total for row in table]
    assert np.isnan(columns["read_p99_ns"]).all(), "the workload reads nothing"


def test_frames_have_the_same_columns(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = hostftl.compare(SMALL, "hatl-2g", ["none", "pblk"], warm="new")
    frame, other = table.to_pandas(), table.to_polars()
    assert list(frame) == other.columns == list(table.to_numpy())
    assert frame["requests"].dtype == "Int64" and frame["requests"][1] is pandas.NA
    assert other["requests"].to_list() == [4000, None]
    table.write_parquet(tmp_path / "rows.parquet")
    assert polars.read_parquet(tmp_path / "rows.parquet").equals(other)


def test_tables_can_be_sent_and_added(table):
    sent = pickle.loads(pickle.dumps(table))
    assert sent.to_list() == table.to_list() and isinstance(sent[0], hostftl.Row)
    both = table + sent
    assert len(both) == 24 and both.to_numpy()["waf_total"].shape == (24,)
    none = hostftl.compare(SMALL, "hatl-2g", "none", warm="new")
    both = (none + table).to_numpy()
    assert both["layer_spare"].tolist()[:3] == ["", "", "7"]
    assert list(both)[-1] == "failed" and both["seed"].tolist() == [1] + [7] * 12


def test_what_can_not_be_is_a_hole_with_its_reason(cli):
    asked = [SMALL, "--drive", "hatl-2g", "--layers", "none,pblk", "--warm", "new"]
    table = hostftl.compare(SMALL, "hatl-2g", ["none", "pblk"], warm="new")
    assert table.to_list() == cli.rows(*asked)
    (hole,) = table.holes
    assert hole.layer == "pblk" and "pblk" in hole.failed and len(table) == 1
    assert table.to_numpy()["failed"].tolist() == ["", hole.failed]
    with pytest.raises(hostftl.StudyError) as told:
        hostftl.run(SMALL, "hatl-2g", "pblk")
    assert str(told.value) == hole.failed


@pytest.mark.parametrize(
    ("kind", "args", "options"),
    [
        (hostftl.UsageError, {"drives": "hatl-2h"}, ["--drive", "hatl-2h"]),
        (hostftl.UsageError, {"layers": "hrad"}, ["--layers", "hrad"]),
        (hostftl.UsageError, {"layers": "hard:spare=no"}, ["--layers", "hard:spare=no"]),
        (hostftl.UsageError, {"warm": "old"}, ["--warm", "old"]),
        (hostftl.UsageError, {"export": "0%"}, ["--export", "0%"]),
        (hostftl.UsageError, {"memory": "much"}, ["--memory", "much"]),
        (hostftl.UsageError, {"traces": "synth:nothing"}, None),
        (hostftl.StudyError, {"traces": "/nowhere.csv"}, None),
        (hostftl.StudyError, {"drives": "/nowhere.toml"}, ["--drive", "/nowhere.toml"]),
        (hostftl.StudyError, {"traces": "synth:uniform:size=4k,span=9g,count=9"}, None),
    ],
)
def test_faults_have_the_words_of_the_command_line(cli, kind, args, options):
    args = {"traces": SMALL} | args
    code, text = cli.fails("compare", args["traces"], *(options or []))
    with pytest.raises(kind) as told:
        hostftl.compare(**args)
    assert str(told.value) in text and told.value.code == code
    assert isinstance(told.value, hostftl.Error)


def test_what_only_python_can_say_wrong_is_refused():
    for args in ({"export": 1.5}, {"traces": []}, {"layers": []}, {"threads": 0}):
        with pytest.raises(hostftl.UsageError):
            hostftl.compare(**({"traces": SMALL} | args))
    with pytest.raises(hostftl.UsageError, match="one layer"):
        hostftl.run(SMALL, "tlc", ["none", "hard"])
    with pytest.raises(AttributeError, match="waf_total"):
        hostftl.run(SMALL).waf_totl


def test_what_is_noticed_about_a_trace_is_a_warning(tmp_path):
    trace = tmp_path / "odd.csv"
    lines = ["128166372003061629,usr,0,Write,4097,4096,100"] * 20
    trace.write_text("\n".join(lines) + "\n")
    with pytest.warns(hostftl.TraceWarning, match="sector"):
        row = hostftl.run(f"{trace}:format=msr")
    assert row.widened == 20
