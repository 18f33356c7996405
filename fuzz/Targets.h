//===- Targets.h - What the fuzzers run -------------------------*- C++ -*-===//
//
// Each target takes one input and must return: a crash, an assertion, a
// sanitizer's report, a hang or excess memory is a finding. Errors that the
// code under test reports are the expected outcome of most inputs.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_FUZZ_TARGETS_H
#define FLAMIA_FUZZ_TARGETS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <random>
#include <string>

namespace flamia {
namespace fuzz {

/// PTX text: parser, decoder, and a bounded run of every entry under a
/// schedule that the text's hash chooses.
void runPtx(llvm::StringRef text);

/// Files of flamia-sim. The first byte says which one the rest stands for:
/// 'l' launch.json (both forms, its kernel is then run), 'r' a launch record,
/// 'n' a .npy file, 'o' the lists of --checks and --ctas.
void runFiles(llvm::StringRef bytes);

/// Changes PTX text as a person would: whole statements are deleted, doubled,
/// exchanged; qualifiers, operands and numbers are replaced.
std::string mutatePtx(std::string text, std::mt19937_64 &random);
/// Puts statements of `other` into `text`.
std::string crossPtx(std::string text, llvm::StringRef other,
                     std::mt19937_64 &random);

} // namespace fuzz
} // namespace flamia

#endif // FLAMIA_FUZZ_TARGETS_H
