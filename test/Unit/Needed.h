//===- Needed.h - What a test cannot go on without --------------*- C++ -*-===//
//
// llvm::cantFail has no message in a release build: a folder of kernels that is
// missing would be a crash. Here it is a failure of the test with the error's
// text, after which the program ends, since its other tests need the same.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TEST_UNIT_NEEDED_H
#define FLAMIA_TEST_UNIT_NEEDED_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include "gtest/gtest.h"

#include <cstdlib>

namespace flamia::test {

[[noreturn]] inline void endTests(const llvm::Twine &message, const char *file,
                                  int line) {
  ADD_FAILURE_AT(file, line) << message.str();
  std::exit(EXIT_FAILURE);
}

/// The value, or the end of the tests with the error.
template <typename T>
T needed(llvm::Expected<T> value, const char *file = __builtin_FILE(),
         int line = __builtin_LINE()) {
  if (!value)
    endTests(llvm::toString(value.takeError()), file, line);
  return std::move(*value);
}

inline void needed(llvm::Error error, const char *file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  if (error)
    endTests(llvm::toString(std::move(error)), file, line);
}

} // namespace flamia::test

#endif // FLAMIA_TEST_UNIT_NEEDED_H
