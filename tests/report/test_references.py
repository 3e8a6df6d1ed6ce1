"""What reports hold bytes and rounds against."""

import json

import numpy as np

from destiny.report import report
from tests.helpers import report_folders as folders


def test_bytes_and_rounds_stand_beside_what_they_are_held_against(tmp_path):
    folder = tmp_path / "pca"  # n = 12, p = 2, eigenvalues 0.7^k but for the samples drawn
    folders.pca(folder)
    (page,) = report(folder)
    text = page.read_text(encoding="utf-8")
    assert "To hold bytes against: all data to one agent: " in text
    assert "one n x p matrix per agent: 960 B." in text
    pooled = json.loads((folder / "extras.json").read_text())["spectrum"]["pooled"]
    diameter = json.loads((folder / "network.json").read_text())["diameter"]
    products = np.ceil(np.log(12) / np.sqrt(1 - pooled[2] / pooled[1]))
    assert f"To hold rounds against: about {diameter * products:.0f}, for methods" in text
    damaged = json.loads((folder / "extras.json").read_text())
    damaged["spectrum"]["products"] = "many"
    (folder / "extras.json").write_text(json.dumps(damaged))
    report(folder)
    assert "To hold rounds" not in page.read_text(encoding="utf-8")
