"""Random tile programs: a small valid kernel in the Flamia dialect, with inputs, by seed.

    random_program.py SEED DIR      writes DIR/program.mlir, *.npy and args.json

The programs draw on everything a kernel author may write within rule R1 (tiles of 128 rows,
32 to 256 columns): loads plain and scaled, of whole and ragged tensors, of two or three
dimensions; products of scaled and of BF16 tiles whose B operand is transposed or not and
whose A operand is loaded or computed; accumulators in loops, rescaled by rows or not;
elementwise ops, reductions, broadcasts, masks, quantization; stores. Values stay moderate,
so that a comparison of results says something.
"""
import json
import os
import random
import sys

import numpy as np


def bf16(x):
    """float32 array to BF16 bits, nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def scale_atoms(rng, rows, blocks, row_block, block_block):
    """128x4 atoms [ceil(rows / 128), ceil(blocks / 4), 512]: one byte for each row_block
    operand rows and block_block blocks of 32; padding 127."""
    tiles, columns = -(-rows // 128), -(-blocks // 4)
    values = rng.integers(124, 130, (-(-rows // row_block), -(-blocks // block_block)), np.uint8)
    atoms = np.full((tiles, columns, 512), 127, np.uint8)
    r, b = np.meshgrid(np.arange(rows), np.arange(blocks), indexing="ij")
    offset = (r % 128 % 32) * 16 + r % 128 // 32 * 4 + b % 4
    atoms[r // 128, b // 4, offset] = values[r // row_block, b // block_block]
    return atoms


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.lines = []
        self.header = []
        self.args = []      # (name, type, attributes)
        self.arrays = {}    # name -> array or number
        self.outputs = []
        self.count = 0
        self.indent = "  "
        self.heads = self.random.choice([0, 0, 2])
        self.rows = self.random.choice([128, 128, 256, 200, 77, 1])
        self.columns_used = 0   # of tensor memory by accumulators
        self.shared_left = 176 * 1024   # bytes of shared memory for loaded tiles
        self.constants = {}

    # -- text ---------------------------------------------------------------
    def name(self, stem="t"):
        self.count += 1
        return f"%{stem}{self.count}"

    def emit(self, text):
        self.lines.append(self.indent + text)

    def op(self, text, stem="t"):
        result = self.name(stem)
        self.emit(f"{result} = {text}")
        return result

    def constant(self, value, kind="index"):
        """A constant at the top of the kernel."""
        key = (value, kind)
        if key not in self.constants:
            name = self.name("c")
            text = f"{value}" if kind == "index" else np.format_float_scientific(np.float32(value))
            if kind != "index" and "." not in text.split("e")[0]:
                text = text.replace("e", ".0e")
            text = text.replace(".e", ".0e")
            if value == float("-inf"):
                text = "0xFF800000"
            self.header.append(f"  {name} = arith.constant {text} : {kind}")
            self.constants[key] = name
        return self.constants[key]

    def full(self, value, cols):
        return self.op(f"flamia.full {self.constant(value, 'f32')} : {self.tile(cols)}")

    @staticmethod
    def tile(cols, element="f32", rows=128):
        return f"tensor<{rows}x{cols}x{element}>"

    @staticmethod
    def scaled(rows, cols, block_rows, block_cols):
        return f"!flamia.scaled<{rows}x{cols}, f8E4M3FN by f8E8M0FNU per {block_rows}x{block_cols}>"

    # -- arguments ----------------------------------------------------------
    def argument(self, stem, element, dims, array, attributes=""):
        self.count += 1
        name = f"{stem}{self.count}"
        self.args.append(f"%{name}: memref<{''.join('?x' if d is None else f'{d}x' for d in dims)}{element}>{attributes}")
        self.arrays[name] = array
        return f"%{name}", f"memref<{''.join('?x' if d is None else f'{d}x' for d in dims)}{element}>"

    def normal(self, shape, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def payload(self, shape):
        magnitude = self.rng.integers(0x20, 0x42, shape, np.uint8)
        sign = self.rng.integers(0, 2, shape, np.uint8) << 7
        zero = self.rng.random(shape) < 0.02
        return np.where(zero, 0, magnitude | sign).astype(np.uint8)

    def tensor(self, stem, element, rows, cols):
        """A tensor [rows, cols], or [rows, heads, cols] in programs with heads."""
        shape = (rows, self.heads, cols) if self.heads else (rows, cols)
        dims = [None, None, cols] if self.heads else [None, cols]
        array = {"f32": lambda: self.normal(shape), "bf16": lambda: bf16(self.normal(shape)),
                 "f8E4M3FN": lambda: self.payload(shape)}[element]()
        return self.argument(stem, element, dims, array)

    def place(self, row, col=None):
        col = col or self.constant(0)
        return f"[{row}, %head, {col}]" if self.heads else f"[{row}, {col}]"

    # -- loads --------------------------------------------------------------
    def fits(self, *tiles):
        """Takes (rows, columns, element bytes) out of the budget for loaded tiles; twice in
        loops, where a compiler will want two of each."""
        factor = 2 if len(self.indent) > 2 else 1
        need = factor * sum(rows * cols * size for rows, cols, size in tiles)
        if need > self.shared_left:
            return False
        self.shared_left -= need
        return True

    def load(self, element, cols, row="%row", rows=128, total=None):
        """A plain tile at a row."""
        total = self.rows if total is None else total
        arg, memref = self.tensor("x" if element == "f32" else "b", element, total, cols)
        limit = ""
        if self.random.random() < 0.3:
            limit = f" limit {self.constant(max(1, total - self.random.randrange(0, 40)))}"
        return self.op(f"flamia.load {arg}{self.place(row)}{limit} : {memref} -> {self.tile(cols, element, rows)}")

    def load_scaled(self, rows, cols, along, row="%row", tile="%i", total=None):
        """A scaled tile; its scales run along rows or columns of the tile."""
        total = self.rows if total is None else total
        if along == "cols":
            block = self.random.choice([(1, 32), (1, cols)] + ([(32, 32)] if rows % 32 == 0 else []))
        else:
            block = self.random.choice([(32, 1), (32, 32)])
        data, data_type = self.tensor("d", "f8E4M3FN", total, cols)
        atoms = []
        for _ in range(self.heads or 1):
            if along == "cols":
                atom = scale_atoms(self.rng, total, cols // 32, block[0], block[1] // 32)
            else:
                # Operand rows are channels; tile t of the tokens has its own atom.
                atom = np.concatenate([scale_atoms(self.rng, cols, 4, block[1], block[0] // 32)
                                       for _ in range(-(-total // 128))])
            atoms.append(atom)
        scales = np.concatenate(atoms, axis=1) if self.heads else atoms[0]
        arg, scale_type = self.argument("s", "f8E8M0FNU", [None, None, 512], scales)
        second = "%head" if self.heads else self.constant(0)
        kind = self.scaled(rows, cols, *block)
        value = self.op(f"flamia.load_scaled {data}{self.place(row)}, {arg}[{tile}, {second}] along {along} "
                        f": {data_type}, {scale_type} -> {kind}")
        return value, block

    # -- vector code --------------------------------------------------------
    def binary(self, name, a, b, cols):
        return self.op(f"{name} {a}, {b} : {self.tile(cols)}")

    def scale_by(self, value, factor, cols):
        return self.binary("arith.mulf", value, self.full(factor, cols), cols)

    def bounded(self, value, cols):
        """x / (1 + |x| / 4): within (-4, 4)."""
        magnitude = self.op(f"math.absf {value} : {self.tile(cols)}")
        quarter = self.scale_by(magnitude, 0.25, cols)
        denominator = self.binary("arith.addf", quarter, self.full(1.0, cols), cols)
        return self.binary("arith.divf", value, denominator, cols)

    def vector(self, value, cols, steps):
        """Random elementwise code on one tile; stays moderate."""
        for _ in range(steps):
            value = self.random.choice([
                self.step_unary, self.step_unary, self.step_binary, self.step_reduce, self.step_columns,
                self.step_mask, self.step_select, self.step_round])(value, cols)
        return self.bounded(value, cols)

    def step_unary(self, value, cols):
        kind = self.random.choice(["neg", "abs", "exp2", "relu", "affine", "sigmoid"])
        if kind == "neg":
            return self.op(f"arith.negf {value} : {self.tile(cols)}")
        if kind == "abs":
            return self.op(f"math.absf {value} : {self.tile(cols)}")
        if kind == "exp2":
            return self.op(f"math.exp2 {self.bounded(value, cols)} : {self.tile(cols)}")
        if kind == "relu":
            return self.binary("arith.maxnumf", value, self.full(0.0, cols), cols)
        if kind == "affine":
            factor, offset = self.full(self.random.choice([0.5, -1.25, 0.3]), cols), self.full(0.125, cols)
            return self.op(f"math.fma {value}, {factor}, {offset} : {self.tile(cols)}")
        e = self.op(f"math.exp2 {self.bounded(value, cols)} : {self.tile(cols)}")
        return self.binary("arith.divf", self.full(1.0, cols), self.binary("arith.addf", e, self.full(1.0, cols), cols), cols)

    def step_binary(self, value, cols):
        narrow = self.random.random() < 0.3
        if not self.fits((128, cols, 2 if narrow else 4)):
            return self.step_unary(value, cols)
        if not narrow:
            other = self.load("f32", cols)
        else:
            b = self.load("bf16", cols)
            other = self.op(f"arith.extf {b} : {self.tile(cols, 'bf16')} to {self.tile(cols)}")
        name = self.random.choice(["arith.addf", "arith.subf", "arith.mulf", "arith.maxnumf", "arith.minnumf"])
        return self.binary(name, value, other, cols)

    def step_reduce(self, value, cols):
        # No difference from the mean: a later sum would be nothing but rounding.
        kind = self.random.choice(["max", "sum", "absmax"])
        row = self.op(f"flamia.reduce {kind} {value} : {self.tile(cols)} -> {self.tile(1)}")
        row = self.scale_by(row, 1.0 / cols if kind == "sum" else 0.5, 1)
        rows = self.op(f"flamia.broadcast {row} : {self.tile(1)} -> {self.tile(cols)}")
        names = ["arith.addf", "arith.maxnumf"] + (["arith.subf"] if kind != "sum" else [])
        return self.binary(self.random.choice(names), value, rows, cols)

    def step_columns(self, value, cols):
        arg, memref = self.argument("v", "f32", [None], self.normal((cols,)))
        vector = self.op(f"flamia.load {arg}[{self.constant(0)}] : {memref} -> tensor<1x{cols}xf32>")
        tile = self.op(f"flamia.broadcast {vector} : tensor<1x{cols}xf32> -> {self.tile(cols)}")
        return self.binary(self.random.choice(["arith.addf", "arith.mulf"]), value, tile, cols)

    def step_mask(self, value, cols):
        conditions = self.random.choice(["causal", f"limit {self.constant(cols - 7)}", f"window {self.constant(20)}",
                                         f"causal limit {self.constant(cols // 2 + 1)} window {self.constant(90)}"])
        start = self.constant(self.random.choice([0, 16, 60]))
        masked = self.op(f"flamia.mask {self.bounded(value, cols)} rows {start} cols {self.constant(0)} {conditions} : {self.tile(cols)}")
        return self.op(f"math.exp2 {masked} : {self.tile(cols)}")

    def step_select(self, value, cols):
        other = self.full(0.25, cols)
        predicate = self.random.choice(["ogt", "ole", "une"])
        flag = self.op(f"arith.cmpf {predicate}, {value}, {other} : {self.tile(cols)}")
        return self.op(f"arith.select {flag}, {value}, {other} : {self.tile(cols, 'i1')}, {self.tile(cols)}")

    def step_round(self, value, cols):
        b = self.op(f"arith.truncf {value} : {self.tile(cols)} to {self.tile(cols, 'bf16')}")
        if self.random.random() < 0.5:
            return self.op(f"arith.extf {b} : {self.tile(cols, 'bf16')} to {self.tile(cols)}")
        half = self.scale_by(value, 0.5, cols)
        return self.op(f"flamia.round_like {half}, {b} : {self.tile(cols)}, {self.tile(cols, 'bf16')}")

    # -- products -----------------------------------------------------------
    def pick_format(self, loaded=True):
        """Of a product's operands: False (BF16) or True (MXFP8); `loaded`: both are."""
        return self.random.random() < 0.6

    def may_compute(self, scaled):
        """Whether an operand of this format may be computed."""
        return True

    def contraction(self, k, scaled):
        """A contraction's length that the format allows."""
        return k

    def operand_a(self, value, cols, scaled):
        """A product's A operand from a computed tile."""
        if not scaled:
            kind = self.tile(cols, "bf16")
            return self.op(f"arith.truncf {value} : {self.tile(cols)} to {kind}"), kind
        kind = self.scaled(128, cols, 1, 32)
        how = self.random.choice(["", " exponent 0", " exponent -4"])
        return self.op(f"flamia.quantize {value}{how} : {self.tile(cols)} -> {kind}"), kind

    def loaded_a(self, cols, scaled, row="%row", tile="%i"):
        if not scaled:
            return self.load("bf16", cols, row), self.tile(cols, "bf16")
        value, block = self.load_scaled(128, cols, "cols", row, tile)
        return value, self.scaled(128, cols, *block)

    def loaded_b(self, k, n, scaled, row=None, tile=None, tiles=1):
        """A product's B operand, k x n: a tile [n, k] transposed or a tile [k, n]."""
        row, tile = row or self.constant(0), tile or self.constant(0)
        transposed = self.random.random() < 0.5
        rows, cols = (n, k) if transposed else (k, n)
        total = rows if tiles == 1 else 128 * (tiles - 1) + rows
        if self.random.random() < 0.25 and rows > 32:
            total -= self.random.randrange(1, 17)
        if scaled:
            value, block = self.load_scaled(rows, cols, "cols" if transposed else "rows", row, tile, total)
            kind = self.scaled(rows, cols, *block)
            kind_t = self.scaled(cols, rows, block[1], block[0])
        else:
            value = self.load("bf16", cols, row, rows, total)
            kind, kind_t = self.tile(cols, "bf16", rows), self.tile(rows, "bf16", cols)
        if not transposed:
            return value, kind
        return self.op(f"flamia.transpose {value} : {kind} -> {kind_t}"), kind_t

    def dot(self, a, b, acc, n):
        return self.op(f"flamia.dot {a[0]}, {b[0]}, {acc} : {a[1]}, {b[1]} -> {self.tile(n)}")

    def width(self, choices=(32, 64, 64, 128, 128)):
        return self.random.choice(choices)

    def may_accumulate(self, n):
        """Keeps accumulators within tensor memory, with room for two copies."""
        if self.columns_used + n > 224:
            return False
        self.columns_used += n
        return True

    # -- segments: each takes and returns (tile, columns) --------------------
    def segment_load(self, value, cols):
        cols = self.random.choice([32, 64, 128, 256])
        self.fits((128, cols, 4))
        if self.random.random() < 0.5:
            return self.load("f32", cols), cols
        tile = self.load("bf16", cols)
        return self.op(f"arith.extf {tile} : {self.tile(cols, 'bf16')} to {self.tile(cols)}"), cols

    def segment_dot(self, value, cols):
        n, scaled = self.width(), self.pick_format()
        if not self.fits((128, 128, 2), (128, n, 2)) or not self.may_accumulate(n):
            return value, cols
        if value is not None and cols <= 128 and self.random.random() < 0.7 and self.may_compute(scaled):
            a, k = self.operand_a(value, cols, scaled), cols
        else:
            k = self.contraction(self.width(), scaled)
            a = self.loaded_a(k, scaled)
        b = self.loaded_b(k, n, scaled)
        acc = self.full(self.random.choice([0.0, 0.0, 0.5]), n)
        result = self.dot(a, b, acc, n)
        return self.scale_by(result, 1.0 / k, n), n

    def loop(self, count, carried, body):
        """scf.for from 0 to count; carried: list of (initial value, type)."""
        names = [self.name("a") for _ in carried]
        results = self.name("r")
        iteration = self.name("j")
        types = ", ".join(kind for _, kind in carried)
        pairs = ", ".join(f"{n} = {v}" for n, (v, _) in zip(names, carried))
        many = f":{len(carried)}" if len(carried) > 1 else ""
        self.emit(f"{results}{many} = scf.for {iteration} = {self.constant(0)} to {count} step {self.constant(1)} "
                  f"iter_args({pairs}) -> ({types}) {{")
        self.indent += "  "
        yielded = body(iteration, names)
        self.emit(f"scf.yield {', '.join(yielded)} : {types}")
        self.indent = self.indent[:-2]
        self.emit("}")
        return [f"{results}#{i}" if many else results for i in range(len(carried))]

    def trip_count(self):
        """A loop bound: a constant or a run-time number."""
        trips = self.random.choice([1, 2, 3, 3, 5])
        if self.random.random() < 0.5:
            return self.constant(trips), trips
        self.count += 1
        name = f"n{self.count}"
        self.args.append(f"%{name}: index")
        self.arrays[name] = trips
        return f"%{name}", trips

    def segment_product_loop(self, value, cols):
        """acc += a b over tiles of b (and sometimes the same a), acc rescaled or not."""
        n, k, scaled = self.width(), self.width(), self.pick_format()
        k = self.contraction(k, scaled)
        size = 1 if scaled else 2
        if not self.fits(*[(128, 128, size), (128, n, size)] * 2) or not self.may_accumulate(n):
            return value, cols
        computed = value is not None and cols <= 128 and self.random.random() < 0.4 and self.may_compute(scaled)
        if computed:
            k = cols
        bound, trips = self.trip_count()
        outside = None
        if computed:
            outside = self.operand_a(value, cols, scaled)
        elif self.random.random() < 0.5:
            outside = self.loaded_a(k, scaled)
        rescale = self.random.random() < 0.5
        zero = self.full(0.0, n)

        def body(j, names):
            row = self.op(f"arith.muli {j}, {self.constant(128)} : index", "at")
            a = outside or self.loaded_a(k, scaled)
            b = self.loaded_b(k, n, scaled, row, j, trips)
            acc = names[0]
            if rescale:
                factor = self.full(self.random.choice([0.5, 0.75]), 1)
                factors = self.op(f"flamia.broadcast {factor} : {self.tile(1)} -> {self.tile(n)}")
                acc = self.binary("arith.mulf", acc, factors, n)
            return [self.dot(a, b, acc, n)]

        result = self.loop(bound, [(zero, self.tile(n))], body)[0]
        return self.scale_by(result, 1.0 / (k * trips), n), n

    def segment_softmax_loop(self, value, cols):
        """Scores, vector code with carried row statistics, a second product: attention."""
        keys, k, n = self.width((32, 64, 128)), self.width((32, 64, 128)), self.width((32, 64, 128))
        if self.columns_used + keys + n > 256 or not self.fits((128, k, 2), *[(keys, k, 2), (keys, n, 2)] * 2):
            return value, cols
        self.columns_used += keys + n
        first, second = self.pick_format(), self.pick_format(loaded=False)
        k = self.contraction(k, first)
        bound, trips = self.trip_count()
        q = self.loaded_a(k, first)
        start, nothing = self.full(-30.0, 1), self.full(0.0, 1)
        zero, no_scores = self.full(0.0, n), self.full(0.0, keys)

        def body(j, names):
            m0, l0, acc0 = names
            row = self.op(f"arith.muli {j}, {self.constant(128)} : index", "at")
            s = self.dot(q, self.loaded_b(k, keys, first, row, j, trips), no_scores, keys)
            x = self.scale_by(s, 1.0 / k, keys)
            top = self.op(f"flamia.reduce max {x} : {self.tile(keys)} -> {self.tile(1)}")
            m1 = self.binary("arith.maxnumf", m0, top, 1)
            alpha = self.op(f"math.exp2 {self.binary('arith.subf', m0, m1, 1)} : {self.tile(1)}")
            m1s = self.op(f"flamia.broadcast {m1} : {self.tile(1)} -> {self.tile(keys)}")
            p = self.op(f"math.exp2 {self.binary('arith.subf', x, m1s, keys)} : {self.tile(keys)}")
            part = self.op(f"flamia.reduce sum {p} : {self.tile(keys)} -> {self.tile(1)}")
            l1 = self.op(f"math.fma {l0}, {alpha}, {part} : {self.tile(1)}")
            a = self.operand_a(p, keys, second)
            b = self.loaded_b(keys, n, second, row, j, trips)
            alphas = self.op(f"flamia.broadcast {alpha} : {self.tile(1)} -> {self.tile(n)}")
            acc1 = self.dot(a, b, self.binary("arith.mulf", acc0, alphas, n), n)
            return [m1, l1, acc1]

        m, l, acc = self.loop(bound, [(start, self.tile(1)), (nothing, self.tile(1)), (zero, self.tile(n))], body)
        if self.random.random() < 0.5:
            self.store(m, 1)
        sums = self.op(f"flamia.broadcast {l} : {self.tile(1)} -> {self.tile(n)}")
        return self.binary("arith.divf", acc, sums, n), n

    # -- stores -------------------------------------------------------------
    def store(self, value, cols):
        element = self.random.choice(["f32", "f32", "bf16"]) if cols > 1 else "f32"
        shape = (self.rows, self.heads, cols) if self.heads else (self.rows, cols)
        poison = np.full(shape, 0x7FC1 if element == "bf16" else np.nan, np.uint16 if element == "bf16" else np.float32)
        dims = [None, None, cols] if self.heads else [None, cols]
        arg, memref = self.argument("y", element, dims, poison)
        if element == "bf16":
            value = self.op(f"arith.truncf {value} : {self.tile(cols)} to {self.tile(cols, 'bf16')}")
        limit = ""
        if self.random.random() < 0.4:
            limit = f" limit {self.constant(max(1, self.rows - self.random.randrange(0, 30)))}"
        self.emit(f"flamia.store {value}, {arg}{self.place('%row')}{limit} : {self.tile(cols, element)}, {memref}")
        self.outputs.append(arg[1:])

    # -- whole programs -----------------------------------------------------
    def build(self):
        segments = [self.segment_dot, self.segment_dot, self.segment_product_loop, self.segment_softmax_loop]
        value, cols = None, 0
        if self.random.random() < 0.5:
            value, cols = self.segment_load(None, 0)
        for _ in range(self.random.choice([0, 1, 1, 2, 2])):
            value, cols = self.random.choice(segments)(value, cols)
            if value is not None and self.random.random() < 0.6:
                value = self.vector(value, cols, self.random.randrange(1, 4))
        if value is None:
            value, cols = self.segment_load(None, 0)
            value = self.vector(value, cols, self.random.randrange(1, 5))
        if self.random.random() < 0.3:
            row = self.op(f"flamia.reduce sum {value} : {self.tile(cols)} -> {self.tile(1)}")
            self.store(row, 1)
        self.store(value, cols)
        return self

    def text(self):
        first = self.arrays_of_rows()
        grid = f"{first}[0] ceildiv 128" + (f", {first}[1]" if self.heads else "")
        lines = ["flamia.kernel @program(" + ",\n    ".join(self.args) + f")\n    parameters {{}} grid({grid}) {{"]
        lines += self.header
        body = ["  %i = flamia.program_id x"]
        c128 = self.constants.get((128, "index")) or self.constant(128)
        lines = lines[:1] + self.header
        body.append(f"  %row = arith.muli %i, {c128} : index")
        if self.heads:
            body.append("  %head = flamia.program_id y")
        return "\n".join(lines + body + self.lines + ["  flamia.return", "}", ""])

    def arrays_of_rows(self):
        """The output that gives the grid."""
        return self.outputs[-1]

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "program.mlir"), "w") as file:
            file.write(self.text())
        args = {}
        for name, value in self.arrays.items():
            if isinstance(value, (int, float)):
                args[name] = value
                continue
            np.save(os.path.join(folder, name + ".npy"), value)
            args[name] = {"buffer": name + ".npy"}
            if name in self.outputs:
                args[name]["output"] = name + ".out.npy"
        with open(os.path.join(folder, "args.json"), "w") as file:
            json.dump({"kernel": "program", "args": args}, file, indent=1)


if __name__ == "__main__":
    Program(int(sys.argv[1])).build().write(sys.argv[2])
