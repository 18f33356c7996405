//===- ProbeSupport.h - What the leak probes share --------------*- C++ -*-===//
//
// Bitwise comparison of results, and variants of packs.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_REFERENCE_PROBESUPPORT_H
#define FLAMIA_LIB_REFERENCE_PROBESUPPORT_H

#include "flamia/Reference/Probe.h"

namespace flamia::reference {

/// Counts differences between two results.
struct Comparer {
  const AttentionShape &shape;
  ProbeResult &result;

  /// Compares \p count tokens of \p rowSize numbers from token \p tokenA of
  /// \p a on with those from \p tokenB of \p b on. \p name and \p what say
  /// which output and which variant this is.
  void compare(const char *name, const std::vector<float> &a, int64_t tokenA,
               const std::vector<float> &b, int64_t tokenB, int64_t count,
               int64_t rowSize, const std::string &what);

private:
  void note(const char *name, const std::string &text);
};

/// Sets ok, and a detail if there was nothing to compare.
void finish(ProbeResult &result);

/// Elements of \p tokens tokens of a tensor with \p heads heads.
inline int64_t span(const AttentionShape &shape, int64_t tokens,
                    int64_t heads) {
  return tokens * heads * shape.headDim;
}

/// Tokens \p tokenBegin to \p tokenEnd of a tensor, appended to \p to.
template <typename T>
void appendTokens(const std::vector<T> &from, int64_t tokenBegin,
                  int64_t tokenEnd, int64_t rowSize, std::vector<T> &to) {
  to.insert(to.end(), from.begin() + tokenBegin * rowSize,
            from.begin() + tokenEnd * rowSize);
}

/// The documents of \p order as a pack of their own.
AttentionInputs packOf(const AttentionInputs &inputs,
                       const std::vector<int64_t> &order);
/// Replaces the rows of a document by NaN.
void poison(AttentionInputs &inputs, int64_t document);

/// Document indices, those with most tokens first.
std::vector<int64_t> longestFirst(const AttentionShape &shape);
std::vector<int64_t> reversedDocuments(const AttentionShape &shape);
/// Tokens of the longest document.
int64_t longestDocument(const AttentionShape &shape);

/// BF16 value times 2^20, limited to what BF16 holds.
uint16_t enlarge(uint16_t bits);

} // namespace flamia::reference

#endif // FLAMIA_LIB_REFERENCE_PROBESUPPORT_H
