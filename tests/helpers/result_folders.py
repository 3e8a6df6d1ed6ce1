"""Comparing the folders that two runs wrote."""

import json

import numpy as np

import destiny


def same_files(one, other):
    """The results of two runs, but for the seconds."""
    for name in ("solution.npz", "history.csv"):
        if name == "solution.npz":
            with np.load(one / "destiny" / name) as a, np.load(other / "destiny" / name) as b:
                assert set(a.files) == set(b.files) == {"X", "agents", "axes"}
                assert all(np.array_equal(a[key], b[key]) for key in a.files)
        else:
            a, b = (destiny.History.from_csv(folder / "destiny" / name) for folder in (one, other))
            assert all(np.array_equal(a[c], b[c]) for c in a.columns if c != "seconds")
    a, b = (json.loads((folder / "summary.json").read_text()) for folder in (one, other))
    assert [{**entry, "seconds": 0} for entry in a] == [{**entry, "seconds": 0} for entry in b]
