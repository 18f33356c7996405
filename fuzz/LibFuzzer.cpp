//===- LibFuzzer.cpp - Entry points of libFuzzer --------------------------===//
//
// Compiled once a target: FLAMIA_FUZZ_PTX chooses the PTX target and its
// mutator, otherwise the files of flamia-sim are fuzzed.
//
//===----------------------------------------------------------------------===//

#include "Targets.h"

#include <algorithm>
#include <cstring>

using namespace flamia;

// libFuzzer's own names.
extern "C" {
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                               unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t sizeA,
                                 const uint8_t *b, size_t sizeB, uint8_t *out,
                                 size_t maxSize, unsigned seed);
}

static llvm::StringRef textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
#ifdef FLAMIA_FUZZ_PTX
  fuzz::runPtx(textOf(data, size));
#else
  fuzz::runFiles(textOf(data, size));
#endif
  return 0;
}

#ifdef FLAMIA_FUZZ_PTX
static size_t give(const std::string &text, uint8_t *out, size_t maxSize) {
  size_t n = std::min(text.size(), maxSize);
  std::memcpy(out, text.data(), n);
  return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                               unsigned seed) {
  std::mt19937_64 random(seed);
  // A part of the changes is left to libFuzzer, which knows the dictionary.
  if (random() % 4 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  return give(fuzz::mutatePtx(textOf(data, size).str(), random), data, maxSize);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t sizeA,
                                 const uint8_t *b, size_t sizeB, uint8_t *out,
                                 size_t maxSize, unsigned seed) {
  std::mt19937_64 random(seed);
  return give(fuzz::crossPtx(textOf(a, sizeA).str(), textOf(b, sizeB), random),
              out, maxSize);
}
#endif
