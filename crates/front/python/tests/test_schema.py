"""The output of ``--json`` conforms exactly to docs/results.schema.json."""

import json
from pathlib import Path

import pytest
from conftest import SMALL, TRACE

jsonschema = pytest.importorskip("jsonschema")

SCHEMA = json.loads((Path(__file__).parents[4] / "docs" / "results.schema.json").read_text())
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def test_a_comparison_is_as_the_schema_says(cli):
    mix = "synth:mix:size=4k,span=64m,count=2000,flush=64"
    layers = ["--layers", "none,hard,log:journal=slc-1g,pblk", "--warm", "new,fill=10%"]
    told = cli.json("compare", mix, *layers, "--scale-to", "1.92TB", "--seeds", "2")
    CHECK.validate(told)
    assert len(told["rows"]) == 16 and {row["seed"] for row in told["rows"]} == {1, 2}
    CHECK.validate(cli.json("compare", SMALL, "--drive", "3*tlc:capacity=2g", "--warm", "new"))
    assert told["command"].startswith("hostftl compare synth:mix:size=4k")


def test_a_sweep_is_as_the_schema_says(cli, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(f'traces = "{SMALL}"\nlayers = ["none", "pblk"]\nwarm = "new"\nseeds = 2\n')
    folder = str(tmp_path / "cells")
    CHECK.validate(cli.json("sweep", str(plan), "--out", folder))
    collect = ["--resume", "--collect", str(tmp_path / "all.csv")]
    told = cli.json("sweep", str(plan), "--out", folder, *collect)
    CHECK.validate(told)
    assert told["summary"][0]["waf"]["seeds"] == 2 and told["kept"] == 4


def test_an_advice_is_as_the_schema_says(cli):
    limits = ["--ram", "64M", "--p99", "900ms", "--life", "0.001y", "--scale-to", "1.92TB"]
    layers = ["--layers", "hard,log,pblk", "--seeds", "2"]
    for asked in [], limits:
        told = cli.json("advise", f"{SMALL},iops=5", "--drive", "qlc-64k:capacity=1g", *layers, *asked)
        CHECK.validate(told)
        assert told["kind"] == "advise" and told["command"].startswith("hostftl advise synth:")


def test_placement_ids_are_as_the_schema_says(cli):
    load = "span=64m,count=3000,iops=9"
    mixture = f"synth:sequential:{load},placement=1+uniform:{load}"
    drive = ["--drive", "qlc-64k:capacity=1g:placements=2"]
    found = cli.json("compare", mixture, *drive, "--layers", "none", "--warm", "new")
    CHECK.validate(found)
    assert [it["id"] for it in found["rows"][0]["devices"][0]["placements"]] == [0, 1]
    found = cli.json("advise", mixture, *drive, "--hot", "20%", "--quick")
    CHECK.validate(found)
    assert found["placement"]["neither"] >= 1


def test_what_a_trace_is_like_is_as_the_schema_says(cli, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("0,0,W,0,4096\n5,0,X,0,4096\n4,1,F,0,0\n3,0,D,8,1000\n")
    for trace in [TRACE], [SMALL], [str(bad), "--skip-bad"], [f"{bad}:compress=50%", "--skip-bad"]:
        told = cli.json("trace", "info", *trace)
        CHECK.validate(told)
        assert told["kind"] == "trace-info" and told["version"]
        assert not CHECK.is_valid(told | {"more": 1})


def test_the_schema_allows_nothing_else(cli):
    told = cli.json("compare", SMALL, "--layers", "none", "--warm", "new")
    told["rows"][0]["more"] = 1
    assert not CHECK.is_valid(told)


def test_the_command_of_a_row_makes_it_again(cli):
    asked = [SMALL, "--drive", "tlc:capacity=2g", "--layers", "none,hard:spare=10", "--seed", "9"]
    told = cli.json("compare", *asked, "--warm", "fill=70%", "--export", "70%", "--closed-loop", "4")
    row = told["rows"][1]
    words = row["command"].split()
    (again,) = cli.json(*words[1:])["rows"]
    assert again["digest"] == row["digest"] and again["command"] == row["command"]
    assert row["parameters"]["layer_spare"] == "10"
    assert row["parameters"]["drive_capacity"] == "2g"
