//===- Approximate.cpp - Approximate functions against their bounds -------===//
//
// The simulator computes these in double precision and rounds once, so it
// stands for the exact value when the GPU's error is measured.
//
//===----------------------------------------------------------------------===//

#include "Run.h"

#include <algorithm>
#include <cmath>
#include <thread>

using namespace hw;

namespace {

float asFloat(uint32_t w) {
  float f;
  std::memcpy(&f, &w, 4);
  return f;
}

/// A function whose error the PTX manual bounds (sections 9.7.3 and 9.7.4).
struct Approximation {
  const char *statement;
  double bound; ///< 2^-bound relative to the exact value, or absolute.
  enum { Relative, Absolute, LogLike, Ulps } kind;
  double low, high; ///< Where the bound holds.
};

const Approximation approximationList[] = {
    {"ex2.approx.ftz.f32 d, a;", 22, Approximation::Relative, -INFINITY,
     INFINITY},
    {"ex2.approx.f32 d, a;", 22, Approximation::Relative, -INFINITY, INFINITY},
    {"lg2.approx.f32 d, a;", 22, Approximation::LogLike, -INFINITY, INFINITY},
    {"lg2.approx.ftz.f32 d, a;", 22, Approximation::LogLike, -INFINITY,
     INFINITY},
    {"rcp.approx.f32 d, a;", 1, Approximation::Ulps, -INFINITY, INFINITY},
    {"rcp.approx.ftz.f32 d, a;", 1, Approximation::Ulps, -INFINITY, INFINITY},
    {"rsqrt.approx.f32 d, a;", 22.9, Approximation::Relative, -INFINITY,
     INFINITY},
    {"rsqrt.approx.ftz.f32 d, a;", 22.9, Approximation::Relative, -INFINITY,
     INFINITY},
    {"sqrt.approx.f32 d, a;", 23, Approximation::Relative, -INFINITY, INFINITY},
    {"sqrt.approx.ftz.f32 d, a;", 23, Approximation::Relative, -INFINITY,
     INFINITY},
    {"tanh.approx.f32 d, a;", 11, Approximation::Relative, -INFINITY, INFINITY},
    {"sin.approx.f32 d, a;", 20.5, Approximation::Absolute, -M_PI, M_PI},
    {"cos.approx.f32 d, a;", 20.5, Approximation::Absolute, -M_PI, M_PI}};

/// What one thread finds in its part of the values.
struct Found {
  double worst = 0; ///< Of the bound's measure, GPU against simulator.
  uint32_t at = 0;
  size_t beyond = 0, classes = 0, equal = 0, compared = 0;
  uint32_t example[3] = {0, 0, 0};
};

/// Compares two values; the simulator's is the exact one, rounded once.
void compareOne(const Approximation &f, uint32_t a, uint32_t gpu, uint32_t sim,
                Found &found) {
  float x = asFloat(a);
  double g = asFloat(gpu), s = asFloat(sim);
  bool inside = !(x < f.low) && !(x > f.high);
  if (!inside)
    return;
  ++found.compared;
  if (gpu == sim || (std::isnan(g) && std::isnan(s))) {
    ++found.equal;
    return;
  }
  auto classOf = [](double v) {
    return std::isnan(v) ? 0 : std::isinf(v) ? 1 : v == 0 ? 2 : 3;
  };
  bool absolute = f.kind == Approximation::Absolute;
  if (!std::isfinite(g) || !std::isfinite(s) ||
      (!absolute && (s == 0 || g == 0))) {
    // Where one side is zero or infinite the other may be the smallest or
    // largest number.
    bool edge = std::fabs(g - s) <= 0x1p-126 ||
                (std::isinf(g) != std::isinf(s) &&
                 std::fabs(std::isinf(g) ? s : g) >= 0x1.fffff0p127);
    if (classOf(g) != classOf(s) && !edge && found.classes++ == 0) {
      found.example[0] = a;
      found.example[1] = gpu;
      found.example[2] = sim;
    }
    return;
  }
  double error = std::fabs(g - s), bound = std::exp2(-f.bound), measure;
  // The simulator's own rounding is half a unit in the last place.
  int exponent;
  std::frexp(s, &exponent);
  double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  error = std::max(0.0, error - unit / 2);
  switch (f.kind) {
  case Approximation::Relative:
    // Hardware's subnormal results have absolute errors only.
    measure = error / std::max(std::fabs(s), 0x1p-126);
    break;
  case Approximation::Absolute:
    measure = error;
    break;
  case Approximation::LogLike:
    measure = x > 0.5 && x < 2 ? error : error / std::fabs(s);
    break;
  default:
    measure = error / unit;
    bound = f.bound;
  }
  if (measure > bound && found.beyond++ == 0 && found.classes == 0) {
    found.example[0] = a;
    found.example[1] = gpu;
    found.example[2] = sim;
  }
  if (measure > found.worst) {
    found.worst = measure;
    found.at = a;
  }
}

} // namespace

void Run::approximations() {
  unsigned cores = settings.threads
                       ? settings.threads
                       : std::max(1u, std::thread::hardware_concurrency());
  for (const Approximation &f : approximationList) {
    if (std::string(f.statement).find(settings.match) == std::string::npos)
      continue;
    if (late()) {
      ++notRun;
      std::printf("%-30s not run\n", f.statement);
      continue;
    }
    double began = elapsed();
    Form form;
    form.result = "d";
    form.statement = f.statement;
    unsigned bits = settings.bits, chunkBits = std::min(bits, 22u);
    uint32_t chunk = 1u << chunkBits;
    Found total;
    bool good = true;
    // Kept from chunk to chunk: their pages are there already.
    std::vector<Words> empty = {Words(2 * size_t(chunk))}, gpu, sim;
    for (uint64_t first = 0; good && first < 1ull << bits; first += chunk) {
      Program p;
      p.text = valueKernel(form);
      p.block = std::min(chunk, 256u);
      p.grid = chunk / p.block;
      uint32_t step = 1u << (32 - bits);
      if (bits == 32)
        step = 1;
      p.numbers = {uint32_t(first), step};
      good = results(f.statement, p, empty, gpu, sim);
      if (!good)
        break;
      std::vector<Found> parts(cores);
      std::vector<std::thread> pool;
      for (unsigned c = 0; c < cores; ++c)
        pool.emplace_back([&, c] {
          for (uint32_t k = c; k < chunk; k += cores)
            compareOne(f, uint32_t((first + k) * step), gpu[0][2 * size_t(k)],
                       sim[0][2 * size_t(k)], parts[c]);
        });
      for (std::thread &t : pool)
        t.join();
      for (const Found &part : parts) {
        if (!total.beyond && !total.classes && (part.beyond || part.classes))
          std::copy(part.example, part.example + 3, total.example);
        total.beyond += part.beyond;
        total.classes += part.classes;
        total.equal += part.equal;
        total.compared += part.compared;
        if (part.worst > total.worst) {
          total.worst = part.worst;
          total.at = part.at;
        }
      }
    }
    if (!good)
      continue;
    bool ok = !total.beyond && !total.classes;
    (ok ? passed : failures) += 1;
    std::printf("%-28s 2^%u inputs: %.2f%% equal, worst error ", f.statement,
                bits,
                100.0 * double(total.equal) /
                    double(std::max<size_t>(total.compared, 1)));
    if (f.kind == Approximation::Ulps)
      std::printf("%.2f ulp at %08x (bound %g)", total.worst, total.at,
                  f.bound);
    else
      std::printf("2^%.2f at %08x (bound 2^-%g)", std::log2(total.worst),
                  total.at, f.bound);
    std::printf(", %zu beyond, %zu of another class  (%.1f s)\n", total.beyond,
                total.classes, elapsed() - began);
    if (!ok)
      std::printf("    a = %08x: GPU %08x, simulator %08x\n", total.example[0],
                  total.example[1], total.example[2]);
    std::fflush(stdout);
  }
}
