"""Checks the JSON and the .npy files of a run of the default mix.

usage: check_model.py DIR
"""
import json
import os
import sys

import numpy as np

folder = sys.argv[1]
report = json.load(open(os.path.join(folder, "r.json")))
assert report["pass"] is True
assert report["device"] in ("model", "sim") and report["arch"] == "sm_100a" and report["format"] == "mxfp8"
assert 0.02 < report["rel_err"]["O"] < 0.05, report["rel_err"]
for probe in ("causal", "documents"):
    entry = report["probes"][probe]
    assert entry["ok"] is True and entry["max_abs"] == 0 and entry["values_compared"] > 100000, entry
assert report["probes"]["causal"]["cuts"][:3] == [0, 1, 7]
assert report["seconds"]["total"] > 0

load = lambda name: np.load(os.path.join(folder, "out", name + ".npy"))
o, lse, m, l, kappa = (load(name) for name in ("O", "LSE", "m", "l", "kappa"))
assert o.shape == (1051, 2, 128) and o.dtype == np.float32
for array in (lse, m, l, kappa):
    assert array.shape == (1051, 2) and array.dtype == np.float32
assert (m == np.ceil(m)).all()
assert np.allclose(lse, (m + np.log2(l)) * np.log(2), rtol=1e-5, atol=1e-5)
# The document of length 1 is token 517.
assert np.isfinite(o).all() and (kappa[517] == 1).all() and (kappa > 0.9).all()
# O is BF16: the low half of every word is zero.
assert not (o.view(np.uint32) & 0xFFFF).any()
