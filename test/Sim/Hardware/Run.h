//===- Run.h - A comparison of simulator and GPU ----------------*- C++ -*-===//
#ifndef FLAMIA_TEST_SIM_HARDWARE_RUN_H
#define FLAMIA_TEST_SIM_HARDWARE_RUN_H

#include "Forms.h"
#include "OnBoth.h"

#include <chrono>
#include <fstream>

namespace hw {

struct Settings {
  std::string mode, forms, match, ptxFolder; ///< forms: file or folder
  bool simOnly = false;
  unsigned bits = 32, threads = 0;
  double seconds = 1e9;
};

using Words = std::vector<uint32_t>;

class Run {
public:
  Run(const Settings &s, Driver *driver)
      : settings(s), both(driver, s.threads),
        start(std::chrono::steady_clock::now()) {}

  double elapsed() const {
    std::chrono::duration<double> t = std::chrono::steady_clock::now() - start;
    return t.count();
  }
  bool late() const { return elapsed() > settings.seconds; }

  /// Both results of a program; false after printing an error.
  bool results(const std::string &name, const Program &p,
               const std::vector<Words> &arrays, std::vector<Words> &gpu,
               std::vector<Words> &sim) {
    if (!settings.ptxFolder.empty()) {
      std::ofstream(settings.ptxFolder + "/" + std::to_string(texts++) + ".ptx")
          << p.text;
      if (settings.simOnly && settings.bits == 0)
        return true;
    }
    sim = arrays;
    std::string error = both.simulate(p, sim, flamia::sim::AsyncMode::Eager, 0,
                                      settings.mode == "programs");
    if (!error.empty()) {
      while (error.back() == '\n')
        error.pop_back();
      bool refusal = error.find("error: unknown ") != std::string::npos;
      std::printf("%-44s simulator: %s\n", name.c_str(), error.c_str());
      (refusal ? unknown : failures) += 1;
      return false;
    }
    gpu = both.hasGpu() ? arrays : sim;
    if (both.hasGpu())
      error = both.onGpu(p, gpu);
    if (!error.empty()) {
      std::printf("%-44s %s\n", name.c_str(), error.c_str());
      ++refused;
      return false;
    }
    return true;
  }

  void exhaustive(const std::vector<Form> &forms);
  void random(const std::vector<Form> &forms);
  void approximations();
  void programs(const std::string &folder);

  const Settings &settings;
  OnBoth both;
  unsigned failures = 0, refused = 0, passed = 0, texts = 0, notRun = 0;
  unsigned unknown = 0; ///< Forms that the simulator refuses.

private:
  void explain(const Form &f, uint32_t first, uint32_t step, uint32_t count);
  std::chrono::steady_clock::time_point start;
};

} // namespace hw

#endif // FLAMIA_TEST_SIM_HARDWARE_RUN_H
