"""Random tile programs as those of random_program.py, with NVFP4 besides.

    random_nvfp4.py SEED DIR      writes DIR/program.mlir, *.npy and args.json

Products of packed operands (one to four atoms of scales, 32 to 256 rows on the right, from
the middle of a row, ragged, blocks of 16 channels and more) beside the others and into the
same accumulators, second-level scales from the launch; tiles that are quantized to NVFP4 or
MXFP8 and stored. What is quantized comes from exact operations, so that bytes can be compared.
"""
import sys

import numpy as np

from random_program import Program


def nvfp4_atoms(rng, rows, blocks, width):
    """UE4M3 atoms [ceil(rows / 128), ceil(blocks / 4), 512] of operand rows and blocks of 16,
    of which `width` have one scale: 2^-3 to 1.9, some 0; padding 0."""
    tiles, columns = -(-rows // 128), -(-blocks // 4)
    values = rng.integers(0x20, 0x40, (rows, -(-blocks // width)), np.uint8)
    values[rng.random(values.shape) < 0.02] = 0
    atoms = np.zeros((tiles, columns, 512), np.uint8)
    r, b = np.meshgrid(np.arange(rows), np.arange(blocks), indexing="ij")
    atoms[r // 128, b // 4, (r % 128 % 32) * 16 + r % 128 // 32 * 4 + b % 4] = values[r, b // width]
    return atoms


class Nvfp4Program(Program):
    def pick_format(self, loaded=True):
        """Also "nvfp4", where both operands are loaded."""
        if loaded and self.random.random() < 0.6:
            return "nvfp4"
        return super().pick_format(loaded)

    def may_compute(self, scaled):
        return scaled != "nvfp4"

    def contraction(self, k, scaled):
        return self.random.choice([64, 128, 128, 256]) if scaled == "nvfp4" else k

    # -- loads --------------------------------------------------------------
    def packed(self, stem, rows, cols):
        """A tensor of E2M1 codes."""
        shape = (rows, self.heads) if self.heads else (rows,)
        dims = [None] * len(shape) + [cols]
        return self.argument(stem, "f4E2M1FN", dims, self.rng.integers(0, 256, shape + (cols // 2,), np.uint8))

    def load_packed(self, rows, cols, row, tile, total):
        """A tile of E2M1 with scales along its columns, and its block's columns."""
        block = self.random.choice([16, 16, 16, 32, cols])
        before, after = self.random.choice([(0, 0), (0, 0), (32, 0), (64, 32)])
        data, data_type = self.packed("p", total, before + cols + after)
        atoms = np.stack([nvfp4_atoms(self.rng, total, cols // 16, block // 16) for _ in range(self.heads or 1)], axis=1)
        arg, scale_type = self.argument("u", "f8E4M3FN", [None, None, cols // 64, 512], atoms)
        second = "%head" if self.heads else self.constant(0)
        limit = ""
        if self.random.random() < 0.3:
            limit = f" limit {self.constant(max(1, total - self.random.randrange(0, 40)))}"
        kind = self.fp4(rows, cols, 1, block)
        value = self.op(f"flamia.load_scaled {data}{self.place(row, self.constant(before))}, {arg}[{tile}, {second}]"
                        f"{limit} along cols : {data_type}, {scale_type} -> {kind}")
        return value, block

    @staticmethod
    def fp4(rows, cols, block_rows, block_cols):
        return f"!flamia.scaled<{rows}x{cols}, f4E2M1FN by f8E4M3FN per {block_rows}x{block_cols}>"

    def loaded_a(self, cols, scaled, row="%row", tile="%i"):
        if scaled != "nvfp4":
            return super().loaded_a(cols, scaled, row, tile)
        value, block = self.load_packed(128, cols, row, tile, self.rows)
        return value, self.fp4(128, cols, 1, block)

    def loaded_b(self, k, n, scaled, row=None, tile=None, tiles=1):
        if scaled != "nvfp4":
            return super().loaded_b(k, n, scaled, row, tile, tiles)
        row, tile = row or self.constant(0), tile or self.constant(0)
        total = 128 * (tiles - 1) + n
        if self.random.random() < 0.25 and n > 32:
            total -= self.random.randrange(1, 17)
        value, block = self.load_packed(n, k, row, tile, total)
        kind = self.fp4(k, n, block, 1)
        return self.op(f"flamia.transpose {value} : {self.fp4(n, k, 1, block)} -> {kind}"), kind

    def dot(self, a, b, acc, n):
        """Sometimes another format's product goes into the same accumulator."""
        result = super().dot(a, b, acc, n)
        if "f4E2M1FN" not in a[1] or self.random.random() < 0.75 or not self.fits((128, 128, 2), (128, n, 2)):
            return result
        k, scaled = self.width(), super().pick_format()
        return super().dot(self.loaded_a(k, scaled), self.loaded_b(k, n, scaled), result, n)

    # -- second-level scales ------------------------------------------------
    def number(self, value):
        """An f32 argument of the launch."""
        self.count += 1
        name = f"g{self.count}"
        self.args.append(f"%{name}: f32")
        self.arrays[name] = value
        return f"%{name}"

    def scale_by(self, value, factor, cols):
        if self.random.random() < 0.8:
            return super().scale_by(value, factor, cols)
        scale = self.op(f"flamia.full {self.number(float(np.float32(factor)))} : {self.tile(cols)}")
        return self.binary("arith.mulf", value, scale, cols)

    # -- quantized stores ---------------------------------------------------
    def exact(self, cols):
        """A tile of loaded numbers, perhaps after operations that round nothing."""
        value, _ = self.load_source(cols)
        for _ in range(self.random.choice([0, 1, 2])):
            kind = self.random.choice(["neg", "abs", "relu", "double", "select"])
            if kind == "neg":
                value = self.op(f"arith.negf {value} : {self.tile(cols)}")
            elif kind == "abs":
                value = self.op(f"math.absf {value} : {self.tile(cols)}")
            elif kind == "relu":
                value = self.binary("arith.maxnumf", value, self.full(0.0, cols), cols)
            elif kind == "double":
                value = self.scale_by(value, self.random.choice([2.0, 0.25, 2.0**-12, 256.0]), cols)
            else:
                value = self.step_select(value, cols)
        return value

    def load_source(self, cols):
        if self.random.random() < 0.5:
            return self.load("f32", cols), cols
        tile = self.load("bf16", cols)
        return self.op(f"arith.extf {tile} : {self.tile(cols, 'bf16')} to {self.tile(cols)}"), cols

    def store_quantized(self):
        """Payload and scales of a tile, in either format."""
        nvfp4 = self.random.random() < 0.7
        cols = self.random.choice([64, 128] + ([256] if nvfp4 else [32]))
        if not self.fits((128, cols, 4)):
            return
        value = self.exact(cols)
        rows = self.op(f"arith.subi {self.constant(self.rows)}, %row : index", "left")
        some = f" rows {rows}" if self.random.random() < 0.7 else ""
        if nvfp4:
            kind = self.fp4(128, cols, 1, self.random.choice([16, 16, 32]))
            g = self.number(self.random.choice([0.125, 0.3, 1.0, 2.0**-32, 2.0**32, 0.01]))
            quantized = self.op(f"flamia.quantize {value}{some} global_scale {g} : {self.tile(cols)} -> {kind}", "q")
            atoms, scale, payload = [cols // 64], "f8E4M3FN", cols // 2
        else:
            block = self.random.choice([(1, 32), (1, cols), (32, 32)])
            kind = self.scaled(128, cols, *block)
            quantized = self.op(f"flamia.quantize {value}{some} : {self.tile(cols)} -> {kind}", "q")
            atoms, scale, payload = [], "f8E8M0FNU", cols
        heads = [self.heads] if self.heads else []
        element = "f4E2M1FN" if nvfp4 else "f8E4M3FN"
        data, data_type = self.argument("z", element, [None] * (1 + len(heads)) + [cols],
                                        np.full([self.rows] + heads + [payload], 0xFF, np.uint8))
        tiles = -(-self.rows // 128)
        arg, scale_type = self.argument("w", scale, [None, None] + atoms + [512],
                                        np.full([tiles, self.heads or 1] + atoms + [512], 0xFF, np.uint8))
        second = "%head" if self.heads else self.constant(0)
        self.emit(f"flamia.store_payload {quantized}, {data}{self.place('%row')} : {kind}, {data_type}")
        self.emit(f"flamia.store_scales {quantized}, {arg}[%i, {second}] rows {rows} along cols : {kind}, {scale_type}")
        self.outputs += [data[1:], arg[1:]]

    def build(self):
        if self.random.random() < 0.4:
            self.store_quantized()
        return super().build()


if __name__ == "__main__":
    Nvfp4Program(int(sys.argv[1])).build().write(sys.argv[2])
