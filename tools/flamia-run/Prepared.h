//===- Prepared.h - The backward's preparation, checked ---------*- C++ -*-===//
//
// Compares what attention_bwd_prep wrote with the specification model.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_PREPARED_H
#define FLAMIA_TOOLS_FLAMIA_RUN_PREPARED_H

#include "Difference.h"
#include "Execute.h"

namespace flamia {
namespace run {

/// Payloads and scales byte for byte, vectors number for number.
struct PreparedDifference {
  ByteDifference bytes, numbers;

  int64_t different() const { return bytes.different + numbers.different; }
  /// "12 bytes and 7 numbers, 0 differ", and where the first ones are.
  std::string text() const;
};

/// Compares what the preparation wrote with the specification model's on the
/// same forward results. Padding of vectors is not looked at.
PreparedDifference comparePrepared(const DeviceGradients &device,
                                   const reference::PreparedGradient &expected,
                                   const reference::AttentionShape &shape);

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_PREPARED_H
