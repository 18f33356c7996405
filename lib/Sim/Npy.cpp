//===- Npy.cpp - Reads and writes NumPy .npy files ------------------------===//

#include "flamia/Sim/Npy.h"

#include "flamia/Support/Files.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>

using namespace llvm;
using namespace flamia;
using namespace flamia::sim;

static Error fault(StringRef name, const Twine &what) {
  return createStringError(inconvertibleErrorCode(), name + ": " + what);
}

uint64_t NpyArray::elements() const {
  uint64_t count = 1;
  for (uint64_t extent : shape)
    count *= extent;
  return count;
}

std::string NpyArray::typeName() const {
  StringRef word = kind == 'f'   ? "float"
                   : kind == 'i' ? "int"
                   : kind == 'u' ? "uint"
                                 : "bool";
  return kind == 'b' ? word.str() : (word + Twine(elementBytes * 8)).str();
}

/// A half-precision number as a double.
static double halfToDouble(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? std::nan("") : HUGE_VAL)
                                  : std::ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

template <typename T>
static double readAs(const uint8_t *from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return double(value);
}

std::vector<double> NpyArray::asDoubles() const {
  std::vector<double> values(elements());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint8_t *from = data.data() + i * elementBytes;
    if (kind == 'f')
      values[i] = elementBytes == 2
                      ? halfToDouble(uint16_t(from[0] | from[1] << 8))
                  : elementBytes == 4 ? readAs<float>(from)
                                      : readAs<double>(from);
    else if (kind == 'i')
      values[i] = elementBytes == 1   ? readAs<int8_t>(from)
                  : elementBytes == 2 ? readAs<int16_t>(from)
                  : elementBytes == 4 ? readAs<int32_t>(from)
                                      : readAs<int64_t>(from);
    else
      values[i] = elementBytes == 1   ? readAs<uint8_t>(from)
                  : elementBytes == 2 ? readAs<uint16_t>(from)
                  : elementBytes == 4 ? readAs<uint32_t>(from)
                                      : readAs<uint64_t>(from);
  }
  return values;
}

/// The value of a key in the header's Python dictionary, up to the next comma
/// outside parentheses.
static StringRef lookUp(StringRef header, StringRef key) {
  size_t at = header.find(("'" + key + "'").str());
  if (at == StringRef::npos)
    return {};
  StringRef rest = header.drop_front(at + key.size() + 2).ltrim();
  if (!rest.consume_front(":"))
    return {};
  rest = rest.ltrim();
  size_t end =
      rest.starts_with("(") ? rest.find(')') + 1 : rest.find_first_of(",}");
  return rest.take_front(end).trim();
}

Expected<NpyArray> sim::parseNpy(StringRef bytes, StringRef name) {
  if (!bytes.starts_with("\x93NUMPY") || bytes.size() < 12)
    return fault(name, "not a .npy file");
  unsigned major = uint8_t(bytes[6]);
  if (major < 1 || major > 3)
    return fault(name, "unknown .npy version " + Twine(major));
  auto byteAt = [&](size_t i) { return size_t(uint8_t(bytes[i])); };
  size_t start = major == 1 ? 10 : 12;
  size_t length = byteAt(8) | byteAt(9) << 8;
  if (major > 1)
    length |= byteAt(10) << 16 | byteAt(11) << 24;
  if (bytes.size() < start + length)
    return fault(name, "the header is cut short");
  StringRef header = bytes.substr(start, length);

  NpyArray array;
  StringRef type = lookUp(header, "descr").trim("'");
  if (type.size() < 3 || !StringRef("<|=").contains(type[0]) ||
      !StringRef("fiub").contains(type[1]) ||
      type.drop_front(2).getAsInteger(10, array.elementBytes) ||
      !is_contained({1u, 2u, 4u, 8u}, array.elementBytes) ||
      (type[1] == 'f' && array.elementBytes == 1))
    return fault(name, "unsupported element type '" + type + "'");
  array.kind = type[1];
  if (lookUp(header, "fortran_order") != "False")
    return fault(name, "expected C order");
  StringRef shape = lookUp(header, "shape");
  if (!shape.consume_front("(") || !shape.consume_back(")"))
    return fault(name, "the header has no shape");
  uint64_t count = 1;
  for (StringRef extent : split(shape, ',')) {
    if (extent.trim().empty())
      continue;
    uint64_t value;
    if (extent.trim().getAsInteger(10, value) ||
        (value && count > (uint64_t(1) << 48) / value))
      return fault(name, "bad extent '" + extent.trim() + "'");
    count *= value;
    array.shape.push_back(value);
  }
  StringRef data = bytes.drop_front(start + length);
  if (data.size() != count * array.elementBytes)
    return fault(name, "expected " + Twine(count * array.elementBytes) +
                           " bytes of data, but got " + Twine(data.size()));
  array.data.assign(data.bytes_begin(), data.bytes_end());
  return array;
}

Expected<NpyArray> sim::readNpy(StringRef path) {
  auto file = MemoryBuffer::getFile(path, /*IsText=*/false,
                                    /*RequiresNullTerminator=*/false);
  if (!file)
    return fault(path, file.getError().message());
  return parseNpy((*file)->getBuffer(), path);
}

std::string sim::encodeNpy(char kind, unsigned elementBytes,
                           ArrayRef<uint64_t> shape, ArrayRef<uint8_t> data) {
  std::string header;
  raw_string_ostream stream(header);
  stream << "{'descr': '" << (elementBytes == 1 ? '|' : '<') << kind
         << elementBytes << "', 'fortran_order': False, 'shape': (";
  for (uint64_t extent : shape)
    stream << extent << ", ";
  stream << "), }";
  // The data starts at a multiple of 64 bytes.
  size_t padding = 63 - (10 + header.size()) % 64;
  header.append(padding, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += char(header.size() & 255);
  bytes += char(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char *>(data.data()), data.size());
  return bytes;
}

Error sim::writeNpy(StringRef path, char kind, unsigned elementBytes,
                    ArrayRef<uint64_t> shape, ArrayRef<uint8_t> data) {
  return writeFiles({{path.str(), encodeNpy(kind, elementBytes, shape, data)}});
}
