"""Writes the .npy files of the input tests into a folder.

usage: make_tensors.py DIR
"""
import os
import sys

import numpy as np

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
rng = np.random.default_rng(7)


def save(name, array):
    np.save(os.path.join(folder, name + ".npy"), array)


def tensor(*shape):
    return rng.standard_normal(shape).astype(np.float32)


q, k, v = tensor(37, 2, 64), tensor(37, 1, 64), tensor(37, 1, 64)
save("q", q)
save("k", k)
save("v", v)
# The same values as BF16 bits (float32 truncated to values that BF16 holds) and float16.
exact = (rng.integers(-64, 65, (37, 2, 64)) / 16).astype(np.float32)
save("q32", exact)
save("q16", exact.astype(np.float16))
save("qbf", (exact.view(np.uint32) >> 16).astype(np.uint16))
save("q64", q.astype(np.float64))
save("q_rank2", q.reshape(37, 128))
save("q_short", q[:36])
save("q_dim80", tensor(37, 2, 80))
save("q_dim128", tensor(37, 2, 128))
save("q_heads3", tensor(37, 3, 64))
save("k2", tensor(37, 2, 64))
save("v_short", v[:36])
save("q_fortran", np.asfortranarray(q))
save("do", tensor(37, 2, 64))
save("dlse", tensor(37, 2))
save("dlse16", tensor(37, 2).astype(np.float16))
nan = v.copy()
nan[36, 0, 5] = np.nan
save("v_nan", nan)
for name, values, kind in (
        ("cu", [0, 5, 5, 37], np.int32), ("cu64", [0, 5, 5, 37], np.int64),
        ("cu_first", [1, 5, 37], np.int32), ("cu_last", [0, 5, 36], np.int32),
        ("cu_order", [0, 6, 4, 37], np.int64), ("cu_empty", [], np.int32),
        ("cu_float", [0, 37], np.float32), ("cu_zero", [0], np.int64)):
    save(name, np.array(values, dtype=kind))
save("cu_rank2", np.array([[0, 37]], dtype=np.int32))
with open(os.path.join(folder, "text.npy"), "w") as file:
    file.write("this is no tensor\n")
with open(os.path.join(folder, "q.npy"), "rb") as file:
    data = file.read()
with open(os.path.join(folder, "q_cut.npy"), "wb") as file:
    file.write(data[:-1])
