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

/// BF16 values times 2^20, limited to what BF16 holds; in every fourth token
/// 2^127, which overflows in rotations and in sums.
void enlarge(const AttentionShape &shape, std::vector<uint16_t> &tensor,
             int64_t heads, int64_t tokenBegin, int64_t tokenEnd);

/// P2 of any pass: the pack again, its longest documents alone (at most
/// \p maxAlone), every other document poisoned, and the documents in reverse
/// order. \p run(inputs, results) runs the pass, \p packOf(order) makes a pack
/// of documents, \p poison(inputs, document) fills one with NaN,
/// \p compare(a, tokenA, b, tokenB, count, what) compares tokens of results.
/// False if a run failed.
template <typename Results, typename Inputs, typename Run, typename PackOf,
          typename Poison, typename Compare>
bool probeDocumentVariants(const Inputs &inputs, const AttentionShape &shape,
                           int64_t maxAlone, Run run, PackOf packOf,
                           Poison poison, Compare compare) {
  Results base, again;
  if (!run(inputs, base) || !run(inputs, again))
    return false;
  compare(base, 0, again, 0, shape.tokens(), "in a second run");

  int64_t alone = 0;
  for (int64_t d : longestFirst(shape)) {
    if (shape.length(d) == 0 || alone == maxAlone)
      break;
    ++alone;
    Results results;
    if (!run(packOf({d}), results))
      return false;
    compare(base, shape.cuSeqlens[d], results, 0, shape.length(d),
            "with document " + std::to_string(d) + " alone");
  }

  for (int64_t half = 0; half < 2; ++half) {
    Inputs poisoned = inputs;
    for (int64_t d = half; d < shape.documents(); d += 2)
      poison(poisoned, d);
    Results results;
    if (!run(poisoned, results))
      return false;
    for (int64_t d = 1 - half; d < shape.documents(); d += 2)
      compare(base, shape.cuSeqlens[d], results, shape.cuSeqlens[d],
              shape.length(d), "with NaN in every other document");
  }

  std::vector<int64_t> reversed = reversedDocuments(shape);
  Results results;
  if (!run(packOf(reversed), results))
    return false;
  int64_t first = 0;
  for (int64_t d : reversed) {
    compare(base, shape.cuSeqlens[d], results, first, shape.length(d),
            "with the documents in reverse order");
    first += shape.length(d);
  }
  return true;
}

} // namespace flamia::reference

#endif // FLAMIA_LIB_REFERENCE_PROBESUPPORT_H
