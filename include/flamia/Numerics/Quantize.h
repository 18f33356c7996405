//===- Quantize.h - Block quantization and rotation -------------*- C++ -*-===//
//
// The quantizers of flamia (docs/numerics.md): scale choice, one block, and
// whole packed tensors with their scale arrays. The kernels of quantize.mlir
// must give the same bytes.
//
// Rules common to all E8M0 blocks: the scale is 2^(byte-127), clamped to bytes
// 0..254; payload = e4m3(x * 2^(127-byte)), nearest even, saturating. A block
// with a NaN or an infinity has scale byte 255 and payload 0, so its values
// read as NaN. A block of zeros has payload 0 and byte 0, or byte 127 where a
// block spans several tokens (the caller says which).
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_NUMERICS_QUANTIZE_H
#define FLAMIA_NUMERICS_QUANTIZE_H

#include "flamia/Numerics/Formats.h"
#include "flamia/Numerics/Layout.h"

#include <cstdint>
#include <string>
#include <vector>

namespace flamia::numerics {

/// How the E8M0 scale follows from the largest magnitude m of a block. flamia
/// uses RoundUp; the others are for comparisons and tests.
enum class ScaleMode {
  RoundUp, ///< smallest power of two >= m / 448: nothing saturates
  Floor,   ///< 2^(floor(log2 m) - 8): saturates above 1.75 * 2^k
  Ceil,    ///< 2^(ceil(log2 m) - 8)
  Even     ///< Floor after rounding m half-up to 3 fraction bits
};

/// Scale byte for a block with largest magnitude \p amax. Zero gives
/// \p zeroByte, NaN and infinity give 255.
uint8_t e8m0ScaleByte(float amax, ScaleMode mode = ScaleMode::RoundUp,
                      uint8_t zeroByte = 0);

/// Largest magnitude of \p count values; NaN when there is any NaN.
float absMax(const float *values, int64_t count);

/// payload[i] = e4m3(values[i] * 2^(127-byte)); all 0 for byte 255.
void encodeE4M3(const float *values, int64_t count, uint8_t scaleByte,
                uint8_t *payload);

/// Quantizes one block of \p count values and returns its scale byte.
uint8_t quantizeBlockE4M3(const float *values, int64_t count, uint8_t *payload,
                          ScaleMode mode = ScaleMode::RoundUp,
                          uint8_t zeroByte = 0);

/// payload * scale for one block; NaN for scale byte 255. The product is
/// rounded to float: 256 * 2^120 is +infinity (QNT-12).
void dequantizeBlockE4M3(const uint8_t *payload, int64_t count,
                         uint8_t scaleByte, float *values);

/// NVFP4: quantizes one block (16 values) to E2M1 codes, two a byte, and
/// returns the UE4M3 scale byte s = rne(amax / 6 / g), in fp32 steps,
/// saturating at 448 (so magnitudes beyond 2688 g saturate, QNT-7). Codes are
/// e2m1(x / (s * g)). A scale of 0 gives codes 0. A NaN or infinity in the
/// block gives byte 0x7F (NaN) and codes 0. \p count is even.
uint8_t quantizeBlockNvfp4(const float *values, int64_t count,
                           float globalScale, uint8_t *packedCodes);

/// code * scale * globalScale for one block, in fp32 steps.
void dequantizeBlockNvfp4(const uint8_t *packedCodes, int64_t count,
                          uint8_t scaleByte, float globalScale, float *values);

/// Fixed sign of a channel in the rotation: (-1)^(c0c1 + c2c3 + c4c5).
inline float rotationSign(int64_t channel) {
  int64_t pairs = channel & (channel >> 1) & 0x15;
  int64_t parity = (pairs ^ (pairs >> 2) ^ (pairs >> 4)) & 1;
  return parity ? -1.0f : 1.0f;
}

/// x <- H diag(sign) x / sqrt(headDim) in fp32: signs, then butterflies at
/// distance 1, 2, 4, ..., then the factor. \p headDim is a power of two.
void rotateToken(float *values, int64_t headDim);
/// The inverse: butterflies, the factor, then signs.
void unrotateToken(float *values, int64_t headDim);

/// A token-local tensor (Q, K, dO'): one scale per (token, head).
struct TokenLocalTensor {
  std::vector<uint8_t> payload; ///< E4M3 [tokens, heads, headDim]
  /// E8M0 atoms [scaleTiles, heads, 512]. Operand row r = token in the tile,
  /// K block j = 32-channel block: the headDim/32 first bytes of a row hold
  /// the token's byte, all others are padding (127).
  std::vector<uint8_t> scales;
};

/// A token-block tensor (V): one scale per 32 tokens x 32 channels and head,
/// token blocks counted from the document's first token.
struct TokenBlockTensor {
  std::vector<uint8_t> payload; ///< E4M3 [tokens, heads, headDim]
  /// E8M0 atoms [scaleTiles, heads, 512] for products along tokens (PV):
  /// operand row r = channel, K block j = 32-token block of the tile.
  std::vector<uint8_t> scalesAlongRows;
  /// The same bytes for products along channels (dP): operand row r = token
  /// in the tile, K block j = 32-channel block.
  std::vector<uint8_t> scalesAlongCols;
};

/// Channels that share a scale in NVFP4.
inline constexpr int64_t nvfp4Block = 16;
/// The second-level scale g where nobody says otherwise.
inline constexpr float defaultGlobalScale = 0.125f;

/// 128x4 atoms that the NVFP4 scales of a tile and head take.
inline int64_t nvfp4Atoms(int64_t headDim) {
  return (headDim / nvfp4Block + 3) / 4;
}

/// Empty when \p globalScale can be a second-level scale, else what is wrong:
/// it must lie in [2^-32, 2^32], so that neither block scales nor the softmax
/// scale leave the range of float.
std::string checkGlobalScale(float globalScale);

/// What became of the blocks of an NVFP4 tensor.
struct Nvfp4Counts {
  int64_t blocks = 0;
  /// Finite blocks with a magnitude beyond 2688 g, which becomes 2688 g.
  int64_t saturated = 0;
  /// Blocks that are not zero but have scale byte 0: magnitudes up to
  /// 6 * 2^-10 g.
  int64_t flushed = 0;
};

/// An NVFP4 tensor: one UE4M3 scale per (token, head, 16 channels).
struct Nvfp4Tensor {
  std::vector<uint8_t> payload; ///< E2M1 pairs [tokens, heads, headDim / 2]
  /// UE4M3 atoms [scaleTiles, heads, nvfp4Atoms(headDim), 512]; atom a holds
  /// the 16-channel blocks 4a..4a+3 of 128 tokens; padding 0.
  std::vector<uint8_t> scales;
  float globalScale = defaultGlobalScale;
  Nvfp4Counts counts;
};

/// Quantizes a packed BF16 tensor token by token, rotated first if asked.
TokenLocalTensor quantizeTokenLocal(const uint16_t *tensor,
                                    const PackedShape &shape, bool rotate,
                                    ScaleMode mode = ScaleMode::RoundUp);

/// Quantizes a packed BF16 tensor in token blocks of 32 x 32. Partial blocks
/// count only the document's own tokens.
TokenBlockTensor quantizeTokenBlock(const uint16_t *tensor,
                                    const PackedShape &shape,
                                    ScaleMode mode = ScaleMode::RoundUp);

/// Quantizes a packed BF16 tensor to NVFP4, rotated first if asked.
Nvfp4Tensor quantizeTokenNvfp4(const uint16_t *tensor, const PackedShape &shape,
                               bool rotate, float globalScale);

/// Q or K in format nvfp4: the NVFP4 copy for scores and the E4M3 copy for
/// gradients, from one rotation of each token.
struct MixedTensor {
  TokenLocalTensor e4m3;
  Nvfp4Tensor nvfp4;
};
MixedTensor quantizeTokenMixed(const uint16_t *tensor, const PackedShape &shape,
                               bool rotate, ScaleMode mode, float globalScale);

/// The same for the tiles [firstTile, lastTile) of one document, into arrays
/// of the whole tensor's size: a caller may split the work anywhere between
/// tiles without changing a byte (SFL-3). Only bytes of these tiles are
/// written, each exactly once.
void quantizeTokenLocalTiles(const uint16_t *tensor, const PackedShape &shape,
                             bool rotate, ScaleMode mode, int64_t document,
                             int64_t firstTile, int64_t lastTile,
                             uint8_t *payload, uint8_t *scales);
void quantizeTokenBlockTiles(const uint16_t *tensor, const PackedShape &shape,
                             ScaleMode mode, int64_t document,
                             int64_t firstTile, int64_t lastTile,
                             uint8_t *payload, uint8_t *scalesAlongRows,
                             uint8_t *scalesAlongCols);
/// \p counts is added to.
void quantizeTokenNvfp4Tiles(const uint16_t *tensor, const PackedShape &shape,
                             bool rotate, float globalScale, int64_t document,
                             int64_t firstTile, int64_t lastTile,
                             uint8_t *payload, uint8_t *scales,
                             Nvfp4Counts &counts);

/// Values as the products see them: payload * scale, [tokens, heads, headDim]
/// (a rotated tensor stays rotated). Padding bytes are never read.
std::vector<float> dequantize(const TokenLocalTensor &tensor,
                              const PackedShape &shape);
std::vector<float> dequantize(const TokenBlockTensor &tensor,
                              const PackedShape &shape);
std::vector<float> dequantize(const Nvfp4Tensor &tensor,
                              const PackedShape &shape);

/// A row-major matrix quantized along its rows in 1 x 32 blocks, scales in
/// cuBLAS order (offScaleMatrix), padding 127.
struct RowBlockMatrix {
  std::vector<uint8_t> payload; ///< E4M3 [rows, columns]
  std::vector<uint8_t> scales;  ///< scaleMatrixBytes(rows, columns / 32)
};

/// Quantizes a matrix in 1 x 32 blocks; \p columns is a multiple of 32.
RowBlockMatrix quantizeRows32(const float *matrix, int64_t rows,
                              int64_t columns,
                              ScaleMode mode = ScaleMode::RoundUp);
std::vector<float> dequantizeRows32(const RowBlockMatrix &matrix, int64_t rows,
                                    int64_t columns);

} // namespace flamia::numerics

#endif // FLAMIA_NUMERICS_QUANTIZE_H
