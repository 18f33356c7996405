"""NVFP4 in numpy, apart from lib/Numerics: formats by tables, layouts by index arithmetic."""
import numpy as np

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def e4m3(byte):
    """E4M3 bytes as numbers (no NaN among them)."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    value = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent.astype(np.float64) - 10))
    return np.where(byte & 0x80, -value, value)


MAGNITUDES = e4m3(np.arange(0x7F, dtype=np.uint8))


def nearest(table, values):
    """Index of the nearest entry of an ascending table; ties to the even index."""
    middle = (table[1:] + table[:-1]) / 2
    low, high = np.searchsorted(middle, values, "left"), np.searchsorted(middle, values, "right")
    return np.where((low != high) & (low % 2 == 1), high, low)


def round_e4m3(values):
    return np.sign(values) * MAGNITUDES[nearest(MAGNITUDES, np.abs(values))]


def quantize(values, g):
    """Packed codes [..., C / 2] and scale bytes [..., C / 16] of values [..., C] / g."""
    blocks = values.reshape(*values.shape[:-1], -1, 16) / g
    scales = nearest(MAGNITUDES, np.abs(blocks).max(-1) / 6).astype(np.uint8)
    scale = MAGNITUDES[scales][..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.where(scale > 0, nearest(E2M1, np.abs(blocks) / scale), 0).astype(np.uint8)
    codes = (codes | np.where(blocks < 0, 8, 0).astype(np.uint8)).reshape(values.shape)
    return codes[..., ::2] | codes[..., 1::2] << 4, scales


def decode(packed):
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)
    return np.where(codes & 8, -1, 1) * E2M1[codes & 7]


def place(row, block):
    """Byte of operand row and K block in the 128x4 atom."""
    return row % 32 * 16 + row % 128 // 32 * 4 + block % 4


def token_atoms(scales, items, tiles):
    """Scale bytes [tokens, heads, blocks] as atoms [tiles, heads, blocks / 4, 512]; padding 0."""
    heads, blocks = scales.shape[1:]
    atoms = np.zeros((tiles, heads, -(-blocks // 4), 512), np.uint8)
    block = np.arange(blocks)
    for begin, end, tile, base in items:
        for row in range(min(128, end - begin - 128 * tile)):
            atoms[base + tile, :, block // 4, place(row, block)] = scales[begin + 128 * tile + row].T
    return atoms


def scales_of_tokens(atoms, items, tokens):
    """The inverse of token_atoms."""
    heads, blocks = atoms.shape[1], 4 * atoms.shape[2]
    scales = np.zeros((tokens, heads, blocks), np.uint8)
    block = np.arange(blocks)
    for begin, end, tile, base in items:
        for row in range(min(128, end - begin - 128 * tile)):
            scales[begin + 128 * tile + row] = atoms[base + tile, :, block // 4, place(row, block)].T
    return scales
