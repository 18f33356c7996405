//===- LaunchRecord.h - What a launch of a compiled kernel needs -*- C++
//-*-===//
//
// flamiac writes NAME.json beside NAME.ptx and NAME.cubin; this file reads it
// and turns arguments given by name into a grid and PTX parameters. Nothing
// here knows about a device: the back ends (simulator, CUDA driver) and
// flamia-sim encode the tensor maps and launch. Format: docs/launch-record.md.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_RUNTIME_LAUNCHRECORD_H
#define FLAMIA_RUNTIME_LAUNCHRECORD_H

#include "flamia/Numerics/Exp2.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace flamia {
namespace runtime {

/// Version of the record that this library reads.
inline constexpr int64_t launchRecordVersion = 1;

enum class Element {
  F32,
  BF16,
  F16,
  F8E4M3FN,
  F8E8M0FNU,
  F4E2M1FN, ///< two a byte, the one of even index in the low four bits
  I8,
  I32,
  I64
};

/// "f32", "bf16", ... as written in records.
llvm::StringRef nameOf(Element element);
std::optional<Element> parseElement(llvm::StringRef name);
/// Bits of one element.
unsigned bitsOf(Element element);
/// Bytes of a tensor of these extents, at most UINT64_MAX.
uint64_t bytesOf(Element element, llvm::ArrayRef<uint64_t> extents);
/// Kind ('f', 'i', 'u') and bytes of the NumPy type that carries the element in
/// .npy files: bf16 travels as uint16, 8-bit formats as uint8, and two elements
/// of f4E2M1FN as one uint8.
std::pair<char, unsigned> numpyTypeOf(Element element);
/// Shape of the NumPy array that carries a tensor of these extents: the last
/// one is halved for f4E2M1FN. And back.
std::vector<uint64_t> numpyShapeOf(Element element,
                                   llvm::ArrayRef<uint64_t> extents);
std::vector<uint64_t> extentsOfNumpy(Element element,
                                     llvm::ArrayRef<uint64_t> shape);

enum class Access { Read, Write, ReadWrite };

/// One argument of the kernel as its author wrote it.
struct RecordArgument {
  std::string name;
  bool isTensor = true;
  Element element = Element::F32;
  /// Extents, outermost first; empty where the extent is known at launch only.
  std::vector<std::optional<uint64_t>> dims;
  /// Strides in elements, empty where the launch gives them, the last 1.
  /// Without any entry the tensor is contiguous.
  std::vector<std::optional<uint64_t>> strides;
  /// Optional names of the dimensions ("tokens", ...): equal names must have
  /// equal extents in all arguments. Empty, or one entry a dimension.
  std::vector<std::string> dimNames;
  Access access = Access::Read;
  /// Neither an input nor an output of a user: lies in the caller's workspace.
  bool inWorkspace = false;
};

/// One PTX parameter.
struct RecordParameter {
  enum class Kind {
    Pointer,   ///< 64-bit address of a tensor
    Dim,       ///< 64-bit run-time extent
    Stride,    ///< 64-bit run-time stride, in elements
    TensorMap, ///< 128-byte ragged tensor map of a tensor
    Scalar     ///< a scalar argument, in its own type
  };
  Kind kind = Kind::Pointer;
  unsigned argument = 0;  ///< index into LaunchRecord::arguments
  unsigned dim = 0;       ///< Dim, Stride
  uint32_t boxRows = 0;   ///< TensorMap: rows of a box, 1..256
  uint32_t spanBytes = 0; ///< TensorMap: bytes of a row of a box
  std::string swizzle;    ///< TensorMap: none 32B 64B 128B
};

/// An extent of the grid: a number, ceil(extent of an argument / tile), or what
/// the launch chooses.
struct GridExtent {
  uint64_t value = 1; ///< of a number; without a choice
  bool isAny = false;
  bool fromArgument = false;
  unsigned argument = 0, dim = 0;
  uint64_t tile = 1;
};

/// A condition on extents: one is a multiple of `times` another one.
struct RecordCondition {
  unsigned argument = 0, dim = 0;
  uint64_t times = 1;
  unsigned ofArgument = 0, ofDim = 0;
};

struct LaunchRecord {
  std::string path; ///< Where it was read from; may be empty.
  std::string kernel, entry, arch;
  int64_t numerics = 1;
  int64_t optLevel = 0;
  std::string ptx, cubin; ///< File names relative to the record.
  /// Compile-time parameters by name, as written (numbers and strings).
  std::map<std::string, std::string> parameters;
  /// Exponentials that the kernel computes by polynomial.
  numerics::Exp2Share exp2;
  std::array<uint32_t, 3> block = {1, 1, 1};
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  uint32_t dynamicShared = 0;
  uint32_t tmemColumns = 0;
  std::array<GridExtent, 3> grid;
  /// The kernel accepts its y axis in groups (bindArguments).
  bool groupsY = false;
  std::vector<RecordArgument> arguments;
  std::vector<RecordParameter> params;
  /// What the kernel takes for granted; a launch checks it.
  std::vector<RecordCondition> conditions;

  /// Parses and validates a record. `name` is used in messages, which have the
  /// form "NAME: message".
  static llvm::Expected<LaunchRecord> parse(llvm::StringRef text,
                                            llvm::StringRef name);
  /// Reads `path` and parses it.
  static llvm::Expected<LaunchRecord> load(llvm::StringRef path);

  /// Paths of the code files, beside the record.
  std::string ptxPath() const;
  std::string cubinPath() const;
  /// Index of an argument, or -1.
  int findArgument(llvm::StringRef name) const;
};

//===----------------------------------------------------------------------===//
// Binding arguments
//===----------------------------------------------------------------------===//

/// The value of one argument in a launch.
struct Argument {
  std::string name;
  /// What messages call it, where the caller knows it by another name.
  std::string callersName = {};
  bool isTensor = true;
  uint64_t address = 0; ///< Device address, a multiple of 16.
  Element element = Element::F32;
  /// In elements, outermost first. The last one of f4E2M1FN is even.
  std::vector<uint64_t> extents;
  /// In elements; none: contiguous, C order. Only for arguments whose record
  /// has strides: in bytes multiples of 16 below 2^34, the last 1 element.
  std::vector<uint64_t> strides;
  /// Bytes that belong to the caller at `address`; the tensor must fit.
  uint64_t bytes = UINT64_MAX;
  double scalar = 0; ///< Value of a scalar, converted to the record's type.

  static Argument tensor(llvm::StringRef name, uint64_t address,
                         Element element, llvm::ArrayRef<uint64_t> extents,
                         uint64_t bytes = UINT64_MAX);
  static Argument number(llvm::StringRef name, double value);
};

/// What cuTensorMapEncodeTiled is to be called with, innermost dimension first.
/// Box elements outside dims read as zero; that is how the rows at and after a
/// document's end vanish (two extra dimensions, docs/launch-record.md).
struct TensorMapRecipe {
  /// Of the map, not of the tensor: f4E2M1FN travels as bytes of two.
  Element element = Element::F32;
  uint64_t address = 0;
  std::vector<uint64_t> dims;
  std::vector<uint64_t> strides; ///< bytes, of dimension 1..
  std::vector<uint32_t> box;
  std::string swizzle;
};

/// A PTX parameter: its bytes, or the recipe of the 128 bytes.
struct BoundParameter {
  std::vector<uint8_t> bytes;
  std::optional<TensorMapRecipe> tensorMap;
};

/// What a launch may choose; results do not depend on it
/// (docs/launch-record.md).
struct GridChoice {
  /// CTAs that share the work of one x and y, where the record leaves z open.
  uint32_t z = 1;
  /// Groups that the y axis is launched in; 0: one, if the record has any.
  uint32_t yGroups = 0;
};

struct BoundLaunch {
  std::array<uint32_t, 3> grid = {0, 0, 0};
  std::vector<BoundParameter> params;
  /// True when the grid has no CTA: there is nothing to launch.
  bool empty() const { return !grid[0] || !grid[1] || !grid[2]; }
};

/// Checks the arguments against the record (missing, unknown or repeated names,
/// ranks, extents, element types, equal named dimensions, alignment, sizes,
/// limits of the grid) and computes grid and parameters.
///
/// A GPU starts CTAs in the order of x, then y. With yGroups = n the grid
/// (X, Y) becomes (X * Y / n, n): CTAs of one x then follow each other for the
/// Y / n values of y of a group, and the groups follow each other. n must
/// divide Y, and the record must allow it; 0 is the grid as it is. Results are
/// the same.
llvm::Expected<BoundLaunch> bindArguments(const LaunchRecord &record,
                                          llvm::ArrayRef<Argument> arguments,
                                          const GridChoice &choice = {});

/// The ragged tensor map of a tensor, contiguous or with strides, whose
/// outermost dimension is the row axis ([rows, cols] or [rows, heads, cols]).
llvm::Expected<TensorMapRecipe> raggedTensorMap(const Argument &tensor,
                                                uint32_t boxRows,
                                                uint32_t spanBytes,
                                                llvm::StringRef swizzle);

} // namespace runtime
} // namespace flamia

#endif // FLAMIA_RUNTIME_LAUNCHRECORD_H
