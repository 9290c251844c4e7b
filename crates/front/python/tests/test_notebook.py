"""Runs the cells of the notebook in order, like Jupyter."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "layers.ipynb"


def test_the_notebook_runs(capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    told = capsys.readouterr().out
    assert "hard" in told and "±" in told and "sepbit" in told
