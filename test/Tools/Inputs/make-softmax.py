"""Inputs of flamia-eval.test: row_softmax on a ragged matrix, right and wrong expectations."""
import json
import sys

import numpy as np

folder = sys.argv[1]
x = np.random.default_rng(1).standard_normal((150, 64)).astype(np.float32)
e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
y = (e / e.sum(1, keepdims=True)).astype(np.float32)
np.save(f"{folder}/x.npy", x)
np.save(f"{folder}/x64.npy", x.astype(np.float64))
np.save(f"{folder}/y.npy", np.full_like(y, np.nan))
np.save(f"{folder}/expected.npy", y)
np.save(f"{folder}/wrong.npy", y * np.float32(1.001))


def launch(name, expected="expected.npy", x_file="x.npy", **more):
    args = {"x": {"buffer": x_file}, "y": {"buffer": "y.npy", "output": "y_out.npy"}, **more}
    expect = [{"output": "y_out.npy", "expected": expected, "relative_frobenius": 1e-5, "max_abs": 1e-5}]
    with open(f"{folder}/{name}.json", "w") as file:
        json.dump({"record": "none.json", "args": args, "expect": expect}, file)


launch("launch")
launch("wrong", expected="wrong.npy")
launch("type", x_file="x64.npy")
launch("extra", z=1)
