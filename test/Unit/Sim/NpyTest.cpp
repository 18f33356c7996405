//===- NpyTest.cpp - .npy files, good and bad -----------------------------===//

#include "flamia/Sim/Npy.h"

#include "gtest/gtest.h"

#include "llvm/Support/FileSystem.h"

#include <cstring>

using namespace flamia::sim;
using llvm::StringRef;

namespace {

std::string header(const std::string &dict) {
  std::string text = dict;
  while ((text.size() + 11) % 64)
    text += ' ';
  text += '\n';
  std::string out = "\x93NUMPY";
  out += '\x01';
  out += '\x00';
  out += char(text.size() & 0xFF);
  out += char(text.size() >> 8);
  return out + text;
}

std::string message(const std::string &bytes) {
  auto array = parseNpy(bytes, "x.npy");
  return array ? "" : llvm::toString(array.takeError());
}

TEST(Npy, RoundTrip) {
  llvm::SmallString<128> path;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("npy", "npy", path));
  std::vector<uint8_t> data(24);
  for (size_t k = 0; k < data.size(); ++k)
    data[k] = uint8_t(k * 7);
  ASSERT_FALSE(bool(writeNpy(path, 'f', 4, {2, 3}, data)));
  auto array = readNpy(path);
  ASSERT_TRUE(bool(array));
  EXPECT_EQ(array->typeName(), "float32");
  EXPECT_EQ(array->shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(array->data, data);
  llvm::sys::fs::remove(path);
}

TEST(Npy, ScalarsAndEmptyArrays) {
  std::string one =
      header("{'descr': '<i8', 'fortran_order': False, 'shape': (), }");
  int64_t value = -5;
  one.append(reinterpret_cast<char *>(&value), 8);
  auto scalar = parseNpy(one, "x");
  ASSERT_TRUE(bool(scalar));
  EXPECT_EQ(scalar->asDoubles(), std::vector<double>{-5});
  auto empty = parseNpy(
      header("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 4), }"),
      "x");
  ASSERT_TRUE(bool(empty));
  EXPECT_EQ(empty->elements(), 0u);
}

TEST(Npy, BadFilesAreRefused) {
  EXPECT_NE(message(""), "");
  EXPECT_NE(message("\x93NUMPY"), "");
  EXPECT_NE(message("NUMPY file"), "");
  std::string good =
      header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }");
  EXPECT_NE(message(good), "");                     // Too short.
  EXPECT_NE(message(good + std::string(9, 0)), ""); // Too long.
  EXPECT_EQ(message(good + std::string(8, 0)), "");
  EXPECT_NE(message(header("{'descr': '>f4', 'fortran_order': False, "
                           "'shape': (1,), }") +
                    std::string(4, 0)),
            "");
  EXPECT_NE(message(header("{'descr': '<f4', 'fortran_order': True, "
                           "'shape': (2, 2), }") +
                    std::string(16, 0)),
            "");
  EXPECT_NE(
      message(header("{'descr': '<f4', 'shape': (1,), }") + std::string(4, 0)),
      "");
  EXPECT_NE(message(header("{'descr': '<f4', 'fortran_order': False, 'shape': "
                           "(99999999999999999999, 2), }")),
            "");
}

} // namespace
