//===- Npy.h - Reads and writes NumPy .npy files ----------------*- C++ -*-===//
//
// The only tensor file format of flamia's tools. Versions 1 to 3 of the format,
// C order, little endian (or one-byte) elements of the kinds f, i, u and b.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_SIM_NPY_H
#define FLAMIA_SIM_NPY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace flamia {
namespace sim {

/// A dense array in C order.
struct NpyArray {
  /// NumPy kind: 'f' float, 'i' signed, 'u' unsigned, 'b' bool.
  char kind = 'f';
  unsigned elementBytes = 4;
  std::vector<uint64_t> shape;
  std::vector<uint8_t> data;

  uint64_t elements() const;
  /// "float32", "uint8", ... as NumPy names it.
  std::string typeName() const;
  /// The elements as doubles (exact for all kinds but 64-bit integers).
  std::vector<double> asDoubles() const;
};

/// Reads a file. Errors name the file and what is wrong with it.
llvm::Expected<NpyArray> readNpy(llvm::StringRef path);
/// Parses the bytes of a file; `name` is used in messages.
llvm::Expected<NpyArray> parseNpy(llvm::StringRef bytes, llvm::StringRef name);
/// The bytes of a version 1.0 file. `data` holds the elements in C order.
std::string encodeNpy(char kind, unsigned elementBytes,
                      llvm::ArrayRef<uint64_t> shape,
                      llvm::ArrayRef<uint8_t> data);

/// Writes encodeNpy's bytes to a file.
llvm::Error writeNpy(llvm::StringRef path, char kind, unsigned elementBytes,
                     llvm::ArrayRef<uint64_t> shape,
                     llvm::ArrayRef<uint8_t> data);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_SIM_NPY_H
