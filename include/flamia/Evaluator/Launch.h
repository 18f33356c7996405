//===- Launch.h - launch.json for the evaluator -----------------*- C++ -*-===//
//
// The launch.json form with named arguments (docs/launch-record.md):
//
//   {"args": {"q": {"buffer": "q.npy"}, "o": {"buffer": "o.npy",
//    "output": "o_out.npy"}, "softmax_scale": 0.088},
//    "expect": [{"output": "o_out.npy", "expected": "e.npy",
//                "relative_frobenius": 1e-3}]}
//
// Paths are relative to the file. Everything else in it is for other tools.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_EVALUATOR_LAUNCH_H
#define FLAMIA_EVALUATOR_LAUNCH_H

#include "flamia/Evaluator/Evaluator.h"

namespace flamia::evaluator {

/// An output file of a launch, or a comparison of one.
struct LaunchOutput {
  std::string argument, path;
};
struct LaunchExpectation {
  /// Name of the argument whose output is compared, and both files.
  std::string argument, output, expected;
  /// Limits; negative if not given. Bitwise compares elements exactly.
  double relativeFrobenius = -1, maxAbs = -1;
  bool bitwise = false;
};

struct Launch {
  Arguments arguments;
  std::vector<LaunchOutput> outputs;
  std::vector<LaunchExpectation> expectations;
};

/// Reads \p path and the arrays it names. The numpy type of each must be that
/// of the kernel argument's element (bf16 as uint16, 8-bit floats as uint8).
llvm::Expected<Launch> readLaunch(llvm::StringRef path, KernelOp kernel);

/// Writes the output files.
llvm::Error writeOutputs(KernelOp kernel, const Launch &launch);

/// Compares; appends one line for each expectation to \p report. False if a
/// limit was exceeded.
llvm::Expected<bool> checkExpectations(KernelOp kernel, const Launch &launch,
                                       llvm::raw_ostream &report);

} // namespace flamia::evaluator

#endif // FLAMIA_EVALUATOR_LAUNCH_H
