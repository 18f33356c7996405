"""Inputs and expectations of flamia-eval-shift.test.

Elements are powers of two, so that the scale byte of a block with maximum 2^a is a - 8 + 127
and the payload of the maximum is 256 (byte 0x78).
"""
import json
import sys

import numpy as np

folder = sys.argv[1]
random = np.random.default_rng(5)
top = random.integers(-130, 127, (128, 4))
x = np.zeros((128, 4, 32))
x[:, :, 7] = np.ldexp(1.0, top)
x[3, 1, 7] = np.nan
x[4, 2] = 0
shift = random.integers(-20, 20, 128).astype(np.float32)
shift[:5] = [np.nan, 300, -300, 1, 1]
shift[6:9] = [3.0e38, -np.inf, 0]

base = np.maximum(top - 8 + 127, 0)
base[3, 1], base[4, 2] = 255, 0


def shifted(by):
    by = np.clip(by, -1e6, 1e6)  # keeps NaN
    bytes = np.clip(base + by, 0, 254)
    return np.where(np.isnan(bytes) | (base == 255), 255, bytes).astype(np.uint8)


def atom(bytes):
    result = np.full(512, 127, np.uint8)
    r, j = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
    result[(r % 32) * 16 + r // 32 * 4 + j] = bytes
    return result.reshape(1, 1, 512)


# 2^top * 2^(127 - base), below 2^-9 it would round to 0; top >= -130 keeps it at 2^-11 at least.
exponent = np.where(base == 255, -100, top + 127 - base)
payload = np.zeros((128, 4, 32), np.uint8)
code = np.where(exponent >= -6, (np.maximum(exponent, -6) + 7) << 3, np.where(exponent >= -9, 1 << np.clip(exponent + 9, 0, 3), 0))
code[4, 2] = 0
payload[:, :, 7] = code
payload = payload.reshape(128, 128)
limited = payload.copy()
limited[5:] = 0

files = {"data": payload, "rows": atom(shifted(shift[:, None] - 8)), "one": atom(shifted(shift[5])),
         "again": limited, "units": atom(np.full((128, 4), 127))}
args = {"x": {"buffer": "x.npy"}, "e": {"buffer": "e.npy"}}
np.save(f"{folder}/x.npy", x.reshape(128, 128).astype(np.float32))
np.save(f"{folder}/e.npy", shift.reshape(128, 1))
for name, values in files.items():
    np.save(f"{folder}/{name}.npy", np.full_like(values, 0xAA))
    np.save(f"{folder}/{name}-expected.npy", values)
    args[name] = {"buffer": f"{name}.npy", "output": f"{name}-out.npy"}
expect = [{"output": f"{name}-out.npy", "expected": f"{name}-expected.npy", "bitwise": True} for name in files]
with open(f"{folder}/launch.json", "w") as file:
    json.dump({"record": "none.json", "args": args, "expect": expect}, file)
