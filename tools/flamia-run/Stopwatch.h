//===- Stopwatch.h - Seconds of a part of a run -----------------*- C++ -*-===//
//
// Wall-clock time for the report.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_STOPWATCH_H
#define FLAMIA_TOOLS_FLAMIA_RUN_STOPWATCH_H

#include <chrono>

namespace flamia {
namespace run {

/// Starts when it is made.
class Stopwatch {
public:
  double seconds() const {
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    return time.count();
  }

private:
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
};

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_STOPWATCH_H
