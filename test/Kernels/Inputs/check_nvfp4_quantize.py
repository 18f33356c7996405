"""NVFP4 quantization on the simulator against numpy, byte for byte.

    check_nvfp4_quantize.py quantize_nvfp4.mlir ARCH...

numpy divides in float32 as lib/Numerics does and rounds by a table of all codes. The data:
the public cases for E2M1 and UE4M3 by their names, quotients beside every threshold of
E2M1, scales beside every threshold of UE4M3, and random rows.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

F32 = np.float32
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6])
E4M3 = np.array([(m / 8 if e == 0 else 1 + m / 8) * 2.0 ** (max(e, 1) - 7) for e in range(16) for m in range(8)])[:127]


def nearest(table, values):
    """Codes of the nearest entries, ties to even, beyond the end the last one."""
    middles = (table[1:] + table[:-1]) / 2
    values = values.astype(np.float64)
    code = np.searchsorted(middles, values, side="left")
    tie = (code < len(middles)) & (values == middles[np.minimum(code, len(middles) - 1)])
    return np.where(tie & (code % 2 == 1), code + 1, code).astype(np.uint8)


def expected(x, g):
    """(codes [rows, 32], scale bytes [rows, 4]) of x [rows, 64]."""
    blocks = x.reshape(len(x), 4, 16)
    amax = np.abs(blocks).max(axis=2)
    finite = np.isfinite(amax)
    with np.errstate(all="ignore"):
        scale = nearest(E4M3, np.where(finite, amax / F32(6) / F32(g), F32(0)))
        divisor = (E4M3[scale].astype(F32) * F32(g))[:, :, None]
        quotient = blocks / divisor
    used = (finite & (scale != 0))[:, :, None]
    codes = nearest(E2M1, np.abs(np.where(used, quotient, F32(0)))) | np.signbit(blocks).astype(np.uint8) << 3
    codes = np.where(used, codes, 0).astype(np.uint8).reshape(len(x), 64)
    return codes[:, 0::2] | codes[:, 1::2] << 4, np.where(finite, scale, 0x7F).astype(np.uint8)


def atoms_of(scales):
    """[rows, 4] in 128x4 atoms, padding 0."""
    atoms = np.zeros((-(-len(scales) // 128), 1, 1, 512), np.uint8)
    for row, bytes_of_row in enumerate(scales):
        at = row % 32 * 16 + row % 128 // 32 * 4
        atoms[row // 128, 0, 0, at:at + 4] = bytes_of_row
    return atoms


def block(*values):
    return np.array(list(values) + [0] * (16 - len(values)), F32)


def public_cases():
    """Name, block, second-level scale, scale byte, codes of the first elements."""
    nan, inf = float("nan"), float("inf")
    cases = [("QNT-1", block(*[2.0 ** e] * 16), 0.125, 0, [0] * 16) for e in (-121, -133, -136, -149)]
    for index in (0, 1, 15):
        for value in (nan, -nan, inf):
            row = block(*[1.0] * 16)
            row[index] = value
            cases.append(("QNT-3", row, 0.125, 0x7F, [0] * 16))
    cases += [
        # 1e30 makes the scale saturate: 6 * 448 * g = 336 is the largest value.
        ("QNT-6", block(336, -336.125, 3e4, -1e30), 0.125, 0x7E, [7, 15, 7, 15]),
        ("QNT-7", block(*[5376.0] * 16), 2.0, 0x7E, [7] * 16),
        ("QNT-7", block(*[5376.0] * 16), 1.0, 0x7E, [7] * 16),
        ("QNT-9", block(), 0.125, 0, [0] * 16),
        ("QNT-9", block(*[-0.0] * 16), 0.125, 0, [0] * 16),
        ("QNT-12", block(3.3895314e38, 1.0, -3.3895314e38), 0.125, 0x7E, [7, 0, 15]),
        # All sixteen codes, -0 included.
        ("QNT-8", block(*E2M1, *-E2M1), 1.0, 0x38, list(range(16))),
    ]
    return cases


def threshold_rows(g, rng):
    """Quotients within two ulps of E2M1's thresholds, for random scales."""
    rows = []
    for _ in range(96):
        scale = E4M3[rng.integers(8, 127)].astype(F32)
        divisor = scale * F32(g)
        row = np.zeros(64, F32)
        row[::16] = F32(6) * scale * F32(g)
        for i in range(64):
            if i % 16 == 0:
                continue
            threshold = F32(rng.choice([.25, .75, 1.25, 1.75, 2.5, 3.5, 5]))
            bits = (threshold * divisor).view(np.int32) + rng.integers(-2, 3)
            row[i] = np.int32(bits).view(F32) * rng.choice([F32(1), F32(-1)])
        rows.append(row)
    # Largest magnitudes whose sixth is beside a threshold of UE4M3.
    for first in range(0, 126, 4):
        row = rng.standard_normal(64).astype(F32) * F32(2.0 ** -30)
        for b in range(4):
            middle = (E4M3[min(first + b, 125)] + E4M3[min(first + b, 125) + 1]) / 2
            bits = (F32(middle) * F32(6) * F32(g)).view(np.int32) + rng.integers(-2, 3)
            row[16 * b + rng.integers(16)] = np.int32(bits).view(F32)
        rows.append(row)
    return np.stack(rows)


def random_rows(g, rng):
    rows = rng.standard_normal((150, 64)).astype(F32)
    rows *= F32(g) * (F32(2) ** rng.integers(-14, 14, (150, 1)).astype(F32))
    rows[::7, 3] = 0
    rows[5, 17] = np.nan
    rows[6, 63] = -np.inf
    return rows


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stderr}{result.stdout}"[:3000])


def launch(folder, record, x, g):
    np.save(os.path.join(folder, "x.npy"), x)
    np.save(os.path.join(folder, "codes.npy"), np.full((len(x), 32), 0xFF, np.uint8))
    np.save(os.path.join(folder, "scales.npy"), np.full((-(-len(x) // 128), 1, 1, 512), 0xFF, np.uint8))
    args = {"x": {"buffer": "x.npy"}, "g": g}
    for name in ("codes", "scales"):
        args[name] = {"buffer": f"{name}.npy", "output": f"{name}_out.npy"}
    path = os.path.join(folder, "launch.json")
    with open(path, "w") as file:
        json.dump({"record": record, "args": args}, file)
    run(["flamia-sim", "--launch", path])
    return [np.load(os.path.join(folder, f"{name}_out.npy")) for name in ("codes", "scales")]


def main():
    program, architectures = sys.argv[1], sys.argv[2:]
    rng = np.random.default_rng(5)
    checks = []
    for name, row, g, scale, codes in public_cases():
        x = np.tile(row, (1, 4))
        want_codes, want_scales = expected(x, g)
        assert want_scales[0, 0] == scale, (name, want_scales)
        unpacked = np.stack([want_codes & 15, want_codes >> 4], axis=2).reshape(1, 64)
        assert list(unpacked[0, :len(codes)]) == codes, (name, unpacked)
        checks.append((name, x, g))
    # SFL-1: row r has scales 4r .. 4r+3 modulo 126.
    scales = (4 * np.arange(128)[:, None] + np.arange(4)) % 126 + 1
    x = np.zeros((128, 4, 16), F32)
    x[:, :, 0] = E4M3[scales] * 6
    want = atoms_of(expected(x.reshape(128, 64), 1.0)[1])[0, 0, 0]
    for (r, c), at in {(0, 0): 0, (0, 3): 3, (1, 0): 16, (31, 3): 499, (32, 0): 4, (33, 2): 22, (64, 1): 9, (96, 3): 15, (127, 3): 511}.items():
        assert want[at] == scales[r, c]
    checks.append(("SFL-1", x.reshape(128, 64), 1.0))
    for g in (0.125, 1.0, 0.3, float.fromhex("0x1.fffffep-4"), 2.0 ** -32, 2.0 ** 32):
        checks.append((f"thresholds, g = {g}", threshold_rows(g, rng), g))
        checks.append((f"random, g = {g}", random_rows(g, rng), g))
    # Launches of one second-level scale together.
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for arch in architectures:
            for level in ("-O0", "-O2"):
                code = os.path.join(folder, arch + level) + "/"
                run(["flamiac", program, f"-arch={arch}", level, "-o", code])
                for g in sorted({g for _, _, g in checks}):
                    group = [(name, x) for name, x, own in checks if own == g]
                    x = np.concatenate([x for _, x in group])
                    want_codes, want_scales = expected(x, g)
                    codes, atoms = launch(folder, os.path.join(code, "quantize_nvfp4.json"), x, g)
                    first = 0
                    for name, part in group:
                        rows = slice(first, first + len(part))
                        first += len(part)
                        wrong = int((codes[rows] != want_codes[rows]).sum())
                        if wrong:
                            print(f"{arch} {level} {name}: {wrong} bytes of codes differ")
                            faults += 1
                    if (atoms != atoms_of(want_scales)).any():
                        print(f"{arch} {level} g = {g}: {int((atoms != atoms_of(want_scales)).sum())} scale bytes differ")
                        faults += 1
    if faults:
        sys.exit(1)
    print(f"{len(checks)} sets agree")


main()
