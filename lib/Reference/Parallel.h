//===- Parallel.h - A parallel loop -----------------------------*- C++ -*-===//
//
// Runs independent items on several threads. Items are handed out from the
// front, so callers put the longest first; results must not depend on which
// thread runs an item.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_REFERENCE_PARALLEL_H
#define FLAMIA_LIB_REFERENCE_PARALLEL_H

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace flamia::reference {

/// Calls \p makeWorker() once a thread and the worker it returns once an item.
/// \p threads 0 means one per processor.
template <typename MakeWorker>
void parallelItems(int64_t items, unsigned threads, MakeWorker makeWorker) {
  if (threads == 0)
    threads = std::max(1u, std::thread::hardware_concurrency());
  threads = unsigned(std::min<int64_t>(threads, std::max<int64_t>(items, 1)));
  std::atomic<int64_t> next{0};
  auto run = [&] {
    auto worker = makeWorker();
    for (int64_t item = next++; item < items; item = next++)
      worker(item);
  };
  std::vector<std::thread> pool;
  for (unsigned i = 1; i < threads; ++i)
    pool.emplace_back(run);
  run();
  for (std::thread &thread : pool)
    thread.join();
}

} // namespace flamia::reference

#endif // FLAMIA_LIB_REFERENCE_PARALLEL_H
