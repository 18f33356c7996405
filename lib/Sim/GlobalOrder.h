//===- GlobalOrder.h - Who accessed global memory last ----------*- C++ -*-===//
//
// Shared by the clusters of a launch, which may run on several host threads:
// the last accesses of every 16 bytes of writable global memory, and what
// releases to words of it pass on.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_GLOBALORDER_H
#define FLAMIA_LIB_SIM_GLOBALORDER_H

#include "Hazard.h"

#include <mutex>

namespace flamia {
namespace sim {

class GlobalOrder {
public:
  struct Record {
    AccessRecord access;
    uint32_t cluster; ///< Linear number of its first CTA.
  };
  using Cell = llvm::SmallVector<Record, 1>;
  /// What the clusters released to a word.
  using Word = llvm::SmallVector<std::pair<uint32_t, Clocks>, 1>;

  /// Calls `body` with the records of a granule (address / 16).
  void cell(uint64_t granule, llvm::function_ref<void(Cell &)> body) {
    Stripe &s = stripes[granule / pageSize % stripeCount];
    std::lock_guard<std::mutex> guard(s.lock);
    std::unique_ptr<Page> &page = s.pages[granule / pageSize];
    if (!page)
      page = std::make_unique<Page>();
    body(page->cells[granule % pageSize]);
  }
  /// Calls `body` with the word at an address.
  void word(uint64_t address, llvm::function_ref<void(Word &)> body) {
    std::lock_guard<std::mutex> guard(lock);
    body(words[address]);
  }

private:
  static constexpr uint64_t pageSize = 256, stripeCount = 64;
  struct Page {
    Cell cells[pageSize];
  };
  struct Stripe {
    std::mutex lock;
    llvm::DenseMap<uint64_t, std::unique_ptr<Page>> pages;
  };
  Stripe stripes[stripeCount];
  std::mutex lock;
  llvm::DenseMap<uint64_t, Word> words;
};

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_GLOBALORDER_H
