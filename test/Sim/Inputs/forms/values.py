#!/usr/bin/env python3
"""Executes every instruction form of forms.txt that computes a value, on edge values and random ones.

usage: values.py make DIR [--arch sm_90a] [--seeds N]      writes DIR/GROUP/launch.json and what it names
       values.py gpu DIR --save FILE.npz                   runs them on a GPU through libcuda
       values.py model DIR --save FILE.npz --arch sm_100a  what PTX says (models.py), for forms that sm_90a lacks
       values.py sim DIR --save FILE.npz                   runs them through flamia-sim
       values.py compare A.npz B.npz [--arch sm_90a]       compares two results form by form

A form is one line of forms.txt. Its registers are loaded from memory, the instruction is executed by the 32 lanes
of a warp, and its results (registers and, for memory instructions, the 64 bytes a lane that it works on) are stored.
h200.npz is what an H200 (driver 580.159.04, 2026-11-30) gave for --seeds 1; 20 seeds were compared as well.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import zlib

import numpy as np

from probe import HERE, REG, forms, recorded

LANES = 32
CELL = 64  # bytes of memory that a lane works on

# Forms that compute nothing, or need more than registers and a cell of memory (tested elsewhere).
SKIP = re.compile(
    r"^(v(add|sub|abs|min|max|shl|mad|set|avrg)|tex|suld|istypep|wmma|wgmma|multimem|cp\.|tcgen05|clusterlaunch|tensormap"
    r"|mbarrier|fence|membar|barrier\.cluster|bra|exit|ret|trap|brkpt|pmevent|nanosleep|setmaxnreg|griddep|alloca|stack"
    r"|prefetch|applypriority|discard|createpolicy|st\.async|red\.async|st\.bulk|mapa|getctarank|cvta|isspacep|ldmatrix|stmatrix"
    r"|ld\.(weak\.|volatile\.|relaxed\.\w+\.|acquire\.\w+\.)?(local|const|param)|st\.(local|param)|ld\.param"
    r"|mma\S*\.(s4|u4|b1|f64)\.|mma\.sync\.aligned\.m8n8k4|.*(mmio|cache_hint|%(clock|global|grid|current|pm|envreg|smid|nsmid|reserved|warpid|nwarpid|total|aggr|dynamic|cluster|ncluster|nctaid|is_))"
    r"|.*shared::cluster|bar\w*\.(cta\.)?(sync|arrive)|bar.*64|elect)")
# Where the driver's code for sm_90 does not do what PTX says: it adds the lower half only.
WRONG = re.compile(r"atom\.shared\.add\.noftz\.b?f16x2")
# Results that the manual bounds but does not define: relative error, and absolute error where given.
APPROX = [
    (re.compile(r"^(sin|cos)\.approx"), 0, 2e-6),
    (re.compile(r"^lg2\.approx"), 2e-6, 2e-7),
    (re.compile(r"^(ex2|tanh)\.approx\S*\.(f16|bf16)"), 8e-3, 1e-7),
    (re.compile(r"^tanh\.approx"), 6e-4, 0),
    (re.compile(r"^(ex2|rcp|sqrt|rsqrt)\.approx(\.ftz)?\.f32|^div\.(approx|full)"), 6e-7, 0),
    (re.compile(r"^(rcp|rsqrt)\.approx\S*f64"), 2e-6, 0),
    # Hopper sums products of 8-bit floats in another way than Blackwell.
    (re.compile(r"^mma\S*\.e[45]m[23]\.\S*\.f32"), 2e-6, 1e-5),
    (re.compile(r"^mma\S*\.e[45]m[23]\.\S*\.f16"), 2e-3, 1e-3),
]


def f32(values):
    return np.array(values, np.float32).view(np.uint32).astype(np.uint64)


def f16(values):
    return np.array(values, np.float16).view(np.uint16).astype(np.uint64)


def bf16(values):
    return f32(values) >> np.uint64(16)


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.5, 0.1, np.inf, -np.inf, np.nan, 448.0, 464.0, 480.0, 57344.0, 61440.0,
         65504.0, 65520.0, 6.0, 5.0, -5.5, 0.25, 0.75, 1.75, 28.0, 7.5, 7.25, -31.0, 127.5, 255.5, -129.0, 32767.5, 2147483648.0,
         -2147483648.0, 4294967296.0, 9.3e18, 1.9e19, 1e-3, 2 ** -9, 2 ** -10, 1.5 * 2 ** -10, 2 ** -16, 2 ** -17, 6e-8, 3e-8]
TINY = [1e-40, -1e-40, 1.2e-38, 3e-39, 2.0 ** -127, 1.5 * 2.0 ** -127, 2.0 ** -126, 3.4e38, -3.4e38, 1e38, 2.0 ** 127]
EDGES64 = [1e-310, 2.2e-308, 1e308, 1 + 2.0 ** -52, 1 + 2.0 ** -24, 1 + 2.0 ** -25, 1 + 2.0 ** -24 + 2.0 ** -50, 1e39, 1e-46]


def floats(rng, n, small):
    """Edge values, products of random signs, mantissas and exponents."""
    edges = np.array(EDGES + ([] if small else TINY), np.float64)
    random = rng.choice([-1, 1], n) * rng.uniform(1, 2, n) * 2.0 ** rng.integers(-12, 12, n)
    return np.where(rng.random(n) < 0.5, rng.choice(edges, n), random)


def integers(rng, n, bits):
    edges = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256]
    for b in (8, 16, 24, 32, 64):
        edges += [(1 << (b - 1)) - 1, 1 << (b - 1), (1 << b) - 1, (1 << b) - 2, -1, -2, -128, -129]
    edges = np.array([e & ((1 << 64) - 1) for e in edges], np.uint64)
    random = rng.integers(0, 1 << 63, n).astype(np.uint64) * np.uint64(2) + rng.integers(0, 2, n).astype(np.uint64)
    v = np.where(rng.random(n) < 0.4, rng.choice(edges, n), random >> rng.integers(0, 60, n).astype(np.uint64))
    v = np.where(rng.random(n) < 0.3, random, v)
    return v & np.uint64((1 << bits) - 1)


def operand(rng, opcode, cls, n):
    """Values of one source operand as 64-bit patterns (two columns for 128 bits)."""
    with np.errstate(all="ignore"):
        if cls == "p":
            return rng.integers(0, 2, n).astype(np.uint64)
        bits = {"b": 8, "h": 16, "r": 32, "d": 64, "q": 64}[cls]
        v = integers(rng, n, bits)
        types = re.findall(r"(?<=[.])(f16x2|bf16x2|f32x2|tf32|f16|bf16|f32|f64|e4m3x?2?|e5m2x?2?|ue8m0x2)(?=[.]|$)", opcode)
        heavy = 0.75 if types else 0.0
        pick = rng.random(n) < heavy
        if cls == "h":
            half = bf16 if any("bf16" in t for t in types) and not ("f16" in types and rng.random() < 0.5) else f16
            v = np.where(pick, half(floats(rng, n, half is f16)), v)
        elif cls == "r":
            wide = [t for t in types if t in ("f32", "f16x2", "bf16x2", "tf32")]
            kind = wide[-1] if wide else None
            if opcode.startswith("mma") or opcode.startswith("redux"):
                kind = None
            if kind in ("f32", "tf32"):
                v = np.where(pick, f32(floats(rng, n, False)), v)
            elif kind:
                half = f16 if kind == "f16x2" else bf16
                two = half(floats(rng, n, True)) | half(floats(rng, n, True)) << np.uint64(16)
                v = np.where(pick, two, v)
        elif cls == "d":
            if "f64" in types:
                values = np.where(rng.random(n) < 0.3, rng.choice(np.array(EDGES64), n), floats(rng, n, False))
                v = np.where(pick, values.view(np.uint64), v)
            elif "f32x2" in types:
                v = np.where(pick, f32(floats(rng, n, False)) | f32(floats(rng, n, False)) << np.uint64(32), v)
        return v


def mma_operand(rng, opcode, index, n):
    """Registers of mma.sync: moderate numbers of the operand's type."""
    types = re.findall(r"\.(f16|bf16|tf32|f32|f64|s32|e4m3|e5m2|s8|u8|s4|u4|b1)(?=\.|$)", opcode)
    t = types[index] if index < len(types) else types[-1]
    x = lambda: rng.choice([-1, 1], n) * rng.uniform(1, 2, n) * 2.0 ** rng.integers(-6, 6, n)
    if t == "f64":
        return x().view(np.uint64)
    if t in ("f32", "tf32"):
        return f32(x())
    if t in ("f16", "bf16"):
        half = f16 if t == "f16" else bf16
        return half(x()) | half(x()) << np.uint64(16)
    v = integers(rng, n, 32)
    if t in ("e4m3", "e5m2"):  # no NaN, no infinity
        v = rng.integers(0, 1 << 32, n).astype(np.uint64)
        top = np.uint64(0x70707070)
        v = np.where((v & top) == top, v ^ np.uint64(0x40404040), v) & np.uint64(0xBBBBBBBB)
    return v


class Form:
    """One instruction: its text, the registers it reads and writes."""

    def __init__(self, text):
        self.text = text
        self.opcode, _, rest = text.rstrip(";").partition(" ")
        self.memory = "[d1" in rest or "[r1" in rest
        self.shared = ".shared" in self.opcode
        ops = self.split(rest)
        writes = not re.match(r"(st|red)(\.|$)", self.opcode) and ops
        self.dst = self.names(ops[0]) if writes else []
        body = ops[1:] if writes else ops
        self.src, self.group = [], {}
        for k, o in enumerate(body):
            for name in self.names(o):
                if name not in self.src and not (self.memory and name in ("d1", "r1")):
                    self.src.append(name)
                    self.group[name] = k
        # A destination that the instruction may leave alone has a defined value before.
        self.seed = zlib.crc32(text.encode())

    @staticmethod
    def split(rest):
        out, depth, part = [], 0, ""
        for c in rest:
            depth += c in "{[" or 0
            depth -= c in "}]" or 0
            if c == "," and depth == 0:
                out.append(part.strip())
                part = ""
            else:
                part += c
        return out + [part.strip()] if part.strip() else out

    @staticmethod
    def names(operand):
        return [m.group(1) + m.group(2) for m in REG.finditer(operand)]

    def inputs(self, salt):
        rng = np.random.default_rng([self.seed, salt])
        columns, last = [], {}
        for name in self.src:
            cls = name[0]
            if self.opcode.startswith("mma"):
                v = mma_operand(rng, self.opcode, 1 + self.group[name], LANES)
            else:
                v = operand(rng, self.opcode, cls, LANES)
                if cls in last:
                    v = np.where(rng.random(LANES) < 0.2, last[cls], v)
            if self.opcode.startswith("shfl"):
                if name in ("r2",):
                    v = rng.integers(0, 32, LANES).astype(np.uint64)
                if name in ("r3",):
                    v = rng.choice(np.array([0x1F, 0, 0x181F, 0x1C1F, 0x1800, 0x100F], np.uint64), LANES)
                if name == "r4":
                    v = np.full(LANES, 0xFFFFFFFF, np.uint64)
            member = {"vote": "r1", "matc": "r2", "redu": "r2"}.get(self.opcode[:4])
            if name == member:
                v = np.full(LANES, 0xFFFFFFFF, np.uint64)
            elif self.opcode.startswith("match"):
                v = np.full(LANES, v[0]) if rng.random() < 0.5 else rng.choice(v[:3], LANES)
            if self.opcode.startswith("fns"):
                v = {"r2": rng.integers(0, 32, LANES), "r3": rng.integers(-9, 9, LANES)}.get(name, v).astype(np.int64).astype(np.uint64) & np.uint64(0xFFFFFFFF)
            if re.match(r"bf[ei]\.", self.opcode) and name in self.src[-2:]:
                v = rng.choice(np.array([0, 1, 3, 7, 8, 16, 31, 32, 33, 40, 63, 64, 65, 100, 255], np.uint64), LANES)
            if re.match(r"(sin|cos)\.", self.opcode):
                v = np.where(rng.random(LANES) < 0.7, f32(rng.uniform(-3.1, 3.1, LANES)), rng.choice(f32([0, -0.0, 1e-40, np.inf, np.nan]), LANES))
            if ".f64" in self.opcode and cls == "d" and not self.opcode.startswith(("mma", "cvt.rn.f64.u", "cvt.rn.f64.s")):
                nans = np.array([0x7FF8000000000001, 0xFFF80000000000AB, 0x7FF0000000000005, 0xFFF4000000000000], np.uint64)
                v = np.where(rng.random(LANES) < 0.12, rng.choice(nans, LANES), v)
            if ".oob" in self.opcode and rng.random() < 0.6:
                two = np.uint64(0x7FF7) << np.uint64(rng.choice([0, 16]) if cls == "r" else 0)
                v = np.where(rng.random(LANES) < 0.3, two | (v & np.uint64(0 if cls == "h" else 0xFFFF0000FFFF >> 16)), v)
            if re.match(r"(mul|fma|mad|div|rcp|sqrt|add)\S*\.ftz\S*\.f32", self.opcode):
                edge = f32([0.5, 0.25, 2.0, 1.0]).tolist() + [0x00FFFFFF, 0x00FFFFFE, 0x3F7FFFFF, 0x3F7FFFFE, 0x00800000, 0x00800001, 0x40000001, 0x7E800000, 0x7F000000, 0x80FFFFFF, 0x01000001]
                edge = np.array(edge, np.uint64)
                edge = edge | rng.choice(edge, len(edge)) << np.uint64(32) if cls == "d" else edge
                v = np.where(rng.random(LANES) < 0.35, rng.choice(edge, LANES), v)
            if re.match(r"(div|rem)\.[us]", self.opcode) and name[1] == "2":
                v = np.where(v == 0, np.uint64(3), v)
            last[cls] = v
            columns.append(v)
            if cls == "q":
                columns.append(integers(rng, LANES, 64))
        return columns

    def cell(self, salt):
        """Initial bytes of the lanes' memory."""
        rng = np.random.default_rng([self.seed, salt, 1])
        with np.errstate(all="ignore"):
            if re.search(r"\.(bf16|bf16x2)$", self.opcode):
                v = bf16(floats(rng, LANES * 32, False)).astype(np.uint16)
            elif re.search(r"\.(f16|f16x2)$", self.opcode):
                v = f16(floats(rng, LANES * 32, True)).astype(np.uint16)
            elif self.opcode.endswith("f32") or ".f32" in self.opcode:
                v = f32(floats(rng, LANES * 16, False)).astype(np.uint32)
            elif ".f64" in self.opcode:
                v = floats(rng, LANES * 8, False).view(np.uint64)
            else:
                v = integers(rng, LANES * 8, 64)
        cell = np.frombuffer(v.tobytes(), np.uint64).reshape(LANES, 8).copy()
        if ".cas" in self.opcode:  # every other comparison succeeds
            compare = self.inputs(salt)[:2 if ".b128" in self.opcode else 1]
            for k, c in enumerate(compare):
                bits = {"b16": 16, "b32": 32}.get(self.opcode.split(".")[-1], 64)
                mask = np.uint64((1 << bits) - 1)
                cell[::2, k] = (cell[::2, k] & ~mask) | (c[::2] & mask)
        return cell

    def emit(self, out, slot_in, slot_out, cell):
        """Appends PTX; returns the next free slots (input, output, cell)."""
        out.append("{")
        for name in self.src:
            cls = name[0]
            out.append(f"ld.global.b64 %t0, [%in+{slot_in * 256}];")
            slot_in += 1
            if cls == "p":
                out.append(f"cvt.u32.u64 %u0, %t0; setp.ne.u32 %{name}, %u0, 0;")
            elif cls == "b":
                out.append(f"cvt.u32.u64 %u0, %t0; mov.b32 {{%{name}, %b13, %b14, %b15}}, %u0;")
            elif cls == "h":
                out.append(f"cvt.u16.u64 %{name}, %t0;")
            elif cls == "r":
                out.append(f"cvt.u32.u64 %{name}, %t0;")
            elif cls == "d":
                out.append(f"mov.b64 %{name}, %t0;")
            else:
                out.append(f"ld.global.b64 %t1, [%in+{slot_in * 256}]; mov.b128 %{name}, {{%t0, %t1}};")
                slot_in += 1
        if self.memory:
            out.append(f"add.u64 %d1, %cell, {cell * LANES * CELL};")
            if self.shared:
                for k in range(8):
                    out.append(f"ld.global.b64 %t0, [%d1+{8 * k}]; st.shared.b64 [%sm+{8 * k}], %t0;")
                out.append("mov.b64 %t2, %d1; cvt.u64.u32 %d1, %sm; mov.b32 %r1, %sm;")
        carry = re.match(r"(addc|subc|madc)\.", self.opcode)
        if carry:  # odd lanes set the carry or borrow
            out.append("and.b32 %u2, %lane, 1;")
            out.append("mov.b32 %u3, 0; sub.cc.u32 %u2, %u3, %u2;" if carry.group(1) == "subc" else "add.cc.u32 %u2, %u2, -1;")
        text = self.text
        out.append(self.opcode + " " + REG.sub(r"%\1\2", text.partition(" ")[2]))
        if self.memory:
            if self.shared:
                out.append("mov.b64 %d1, %t2;")
                for k in range(8):
                    out.append(f"ld.shared.b64 %t0, [%sm+{8 * k}]; st.global.b64 [%d1+{8 * k}], %t0;")
        for name in self.dst:
            cls = name[0]
            if cls == "p":
                out.append(f"selp.b64 %t0, 1, 0, %{name};")
            elif cls == "b":
                out.append(f"mov.b32 %u0, {{%{name}, %z, %z, %z}}; cvt.u64.u32 %t0, %u0;")
            elif cls == "h":
                out.append(f"cvt.u64.u16 %t0, %{name};")
            elif cls == "r":
                out.append(f"cvt.u64.u32 %t0, %{name};")
            elif cls == "d":
                out.append(f"mov.b64 %t0, %{name};")
            else:
                out.append(f"mov.b128 {{%t0, %t1}}, %{name}; st.global.b64 [%out+{slot_out * 256}], %t1;")
                slot_out += 1
            out.append(f"st.global.b64 [%out+{slot_out * 256}], %t0;")
            slot_out += 1
        out.append("}")
        return slot_in, slot_out, cell + self.memory


def groups(arch):
    """Forms that this target takes, for others than sm_90a only those that it does not take, in groups of at most 120."""
    verdicts = recorded()
    chosen = [Form(f) for f in forms() if arch in verdicts[f] and not SKIP.match(f) and (arch == "sm_90a" or "sm_90a" not in verdicts[f])]
    return {f"g{k // 120:02d}": chosen[k:k + 120] for k in range(0, len(chosen), 120)}


HEAD = """.version 8.8
.target {arch}
.address_size 64
.visible .entry k(.param .u64 pin, .param .u64 pout, .param .u64 pcell) .maxntid 32
{{
.reg .pred %p<16>; .reg .b8 %b<16>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .b64 %d<24>; .reg .b128 %q<8>;
.reg .b64 %in, %out, %cell, %t<4>; .reg .b32 %u<4>, %sm, %lane; .reg .b8 %z;
.shared .align 128 .b8 buffer[2048];
ld.param.u64 %in, [pin]; ld.param.u64 %out, [pout]; ld.param.u64 %cell, [pcell];
mov.u32 %lane, %tid.x; mov.u32 %u1, %ctaid.x;
mul.wide.u32 %t0, %lane, 8; add.u64 %in, %in, %t0; add.u64 %out, %out, %t0;
mul.wide.u32 %t0, %lane, 64; add.u64 %cell, %cell, %t0;
mul.wide.u32 %t0, %u1, {strides[0]}; add.u64 %in, %in, %t0;
mul.wide.u32 %t0, %u1, {strides[1]}; add.u64 %out, %out, %t0;
mul.wide.u32 %t0, %u1, {strides[2]}; add.u64 %cell, %cell, %t0;
mov.u32 %sm, buffer; mad.lo.u32 %sm, %lane, 64, %sm;
mov.b32 %u0, 0; mov.b32 {{%z, %b13, %b14, %b15}}, %u0;
"""


def make(folder, arch, seeds):
    for name, members in groups(arch).items():
        body, slot_in, slot_out, cell = [], 0, 0, 0
        for form in members:
            slot_in, slot_out, cell = form.emit(body, slot_in, slot_out, cell)
        strides = [slot_in * 256, slot_out * 256, cell * LANES * CELL]
        case = os.path.join(folder, name)
        os.makedirs(case, exist_ok=True)
        with open(os.path.join(case, "k.ptx"), "w") as f:
            f.write(HEAD.format(arch=arch, strides=strides) + "\n".join(body) + "\nret;\n}\n")
        rows = [np.concatenate([np.array(form.inputs(s)).reshape(-1, LANES) for form in members if form.src] or [np.zeros((1, LANES))]) for s in range(seeds)]
        cells = [np.array([form.cell(s) for form in members if form.memory]).reshape(-1) for s in range(seeds)]
        np.save(os.path.join(case, "in.npy"), np.array(rows).astype(np.uint64))
        np.save(os.path.join(case, "cell.npy"), np.array(cells).astype(np.uint64) if cell else np.zeros(1, np.uint64))
        np.save(os.path.join(case, "out.npy"), np.full((seeds, max(slot_out, 1), LANES), 0xDEADBEEFDEADBEEF, np.uint64))
        launch = {"ptx": "k.ptx", "entry": "k", "grid": [seeds, 1, 1], "block": [32, 1, 1], "cluster": [1, 1, 1], "dynamic_smem": 0,
                  "params": [{"buffer": "in.npy"}, {"buffer": "out.npy", "output": "out_out.npy"}, {"buffer": "cell.npy", "output": "cell_out.npy"}],
                  "expect": []}
        with open(os.path.join(case, "launch.json"), "w") as f:
            json.dump(launch, f)


def run_gpu(folder, save):
    sys.path.insert(0, os.path.join(HERE, "..", "peer"))
    import run_cuda
    cuda, saved = run_cuda.Cuda(), {}
    for name in sorted(os.listdir(folder)):
        run_cuda.run(cuda, os.path.join(folder, name), saved)
    np.savez_compressed(save, **saved)


def run_sim(folder, save):
    saved, failed = {}, False
    for name in sorted(os.listdir(folder)):
        p = subprocess.run(["flamia-sim", "--launch", os.path.join(folder, name, "launch.json")], capture_output=True, text=True)
        if p.returncode:
            print(name, p.stderr, end="")
            failed = True
            continue
        for part in ("out_out.npy", "cell_out.npy"):
            saved[name + "/" + part] = np.load(os.path.join(folder, name, part))
    np.savez_compressed(save, **saved)
    return failed


def run_model(folder, arch, save):
    import models
    saved = {}
    for name, members in groups(arch).items():
        seeds = len(np.load(os.path.join(folder, name, "out.npy")))
        outs, cells = [], []
        for s in range(seeds):
            rows, after = [], []
            for form in members:
                results, memory = models.run(form, form.inputs(s), form.cell(s) if form.memory else None)
                rows += results
                after += [memory.reshape(-1)] if form.memory else []
            outs.append(np.array(rows, np.uint64))
            cells.append(np.concatenate(after) if after else np.zeros(1, np.uint64))
        saved[name + "/out_out.npy"] = np.array(outs)
        saved[name + "/cell_out.npy"] = np.array(cells)
    np.savez_compressed(save, **saved)


def as_float(form, values):
    t = re.findall(r"\.(bf16x2|f16x2|bf16|f16|f32|f64)$", form.opcode)[0]
    if t == "f64":
        return values.view(np.float64)
    if t == "f32":
        return values.astype(np.uint32).view(np.float32).astype(np.float64)
    parts = np.stack([values & np.uint64(0xFFFF), values >> np.uint64(16) & np.uint64(0xFFFF)])
    if "bf" in t:
        return (parts << np.uint64(16)).astype(np.uint32).view(np.float32).astype(np.float64)
    return parts.astype(np.uint16).view(np.float16).astype(np.float64)


def same(form, got, want):
    bad = got != want
    for pattern, relative, absolute in APPROX:
        if bad.any() and pattern.match(form.opcode):
            with np.errstate(all="ignore"):
                g, w = as_float(form, got), as_float(form, want)
                close = (g == w) | (np.isnan(g) & np.isnan(w)) | (np.abs(g - w) <= relative * np.abs(w) + absolute)
            bad &= ~(close.all(axis=0) if close.ndim > bad.ndim else close)
            break
    return bad


def compare(a, b, arch, limit=40):
    """Prints the forms whose results differ: b is right."""
    got, want = np.load(a), np.load(b)
    wrong = total = 0
    for name, members in groups(arch).items():
        if name + "/out_out.npy" not in got:
            print("no results of", name)
            wrong += len(members)
            continue
        go, wo = got[name + "/out_out.npy"], want[name + "/out_out.npy"]
        gc, wc = (x[name + "/cell_out.npy"] for x in (got, want))
        seeds = min(len(go), len(wo))
        slot = cell = 0
        for form in members:
            total += 1
            if WRONG.match(form.text):
                slot += 1
                cell += 1
                continue
            n = sum(1 + (d[0] == "q") for d in form.dst)
            bad = [(s, k, l) for s in range(seeds) for k in range(n)
                   for l in np.flatnonzero(same(form, go[s, slot + k], wo[s, slot + k]))]
            message = ""
            if bad:
                s, k, l = bad[0]
                values = " ".join(f"{v}={int(c[l]):x}" for v, c in zip(form.src, form.inputs(s)))
                message = f"{len(bad)} lanes, result {k}: {int(go[s, slot + k, l]):x}, expected {int(wo[s, slot + k, l]):x} from {values}"
            if form.memory and not message:
                size = LANES * 8
                for s in range(seeds):
                    x, y = (c.reshape(len(c), -1)[s, cell * size:(cell + 1) * size].reshape(LANES, 8) for c in (gc, wc))
                    lanes = np.flatnonzero((x != y).any(axis=1))
                    if len(lanes):
                        l = lanes[0]
                        message = f"memory of lane {l}: {' '.join('%x' % v for v in x[l])}, expected {' '.join('%x' % v for v in y[l])}"
                        message += " from " + " ".join(f"{v}={int(c[l]):x}" for v, c in zip(form.src, form.inputs(s)))
                        message += " and " + " ".join("%x" % v for v in form.cell(s)[l])
                        break
            if message:
                wrong += 1
                if wrong <= limit:
                    print(f"{form.text} {message}")
            slot += n
            cell += form.memory
    print(f"{total - wrong} of {total} forms agree")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["make", "gpu", "sim", "model", "compare"])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--save")
    parser.add_argument("--limit", type=int, default=40)
    args = parser.parse_args()
    if args.verb == "make":
        make(args.paths[0], args.arch, args.seeds)
    elif args.verb == "gpu":
        run_gpu(args.paths[0], args.save)
    elif args.verb == "model":
        run_model(args.paths[0], args.arch, args.save)
    elif args.verb == "sim":
        sys.exit(run_sim(args.paths[0], args.save))
    else:
        sys.exit(bool(compare(args.paths[0], args.paths[1], args.arch, args.limit)))


if __name__ == "__main__":
    main()
