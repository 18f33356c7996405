"""Checks the JSON and the .npy files of a run of the default mix.

usage: check_model.py DIR [backward]
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

if "backward" not in sys.argv[2:]:
    assert not os.path.exists(os.path.join(folder, "out", "dQ.npy"))
    sys.exit()
assert 0.001 < report["row_sums"] < 0.003
for gradient, heads, low, high in (("dQ", 2, 0.04, 0.065), ("dK", 1, 0.04, 0.065), ("dV", 1, 0.025, 0.045)):
    assert low < report["rel_err"][gradient] < high, report["rel_err"]
    array = load(gradient)
    assert array.shape == (1051, heads, 128) and array.dtype == np.float32
    assert np.isfinite(array).all() and not (array.view(np.uint32) & 0xFFFF).any()
    if report["device"] == "sim":
        assert report["rel_err_model"][gradient] <= 1e-3, report["rel_err_model"]
# A document of one token: dQ and dK vanish, up to what FP8 leaves.
assert np.abs(load("dQ")[517]).max() < 0.1 and np.abs(load("dK")[517]).max() < 0.1
for probe in ("causal", "documents"):
    entry = report["probes"][probe]["gradients"]
    assert entry["ok"] is True and entry["max_abs"] == 0 and entry["values_compared"] > 1000000, entry
consistency = report["probes"]["consistency"]
assert consistency["ok"] is True and consistency["values_compared"] > 50000 and consistency["further"] == 0
