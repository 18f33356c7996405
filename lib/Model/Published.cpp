//===- Published.cpp - Formulas, published points, the fitted law ---------===//

#include "flamia/Model/Published.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

namespace flamia {
namespace model {

//===----------------------------------------------------------------------===//
// Formulas (facts section 5)
//===----------------------------------------------------------------------===//

/// Cycles of one product of 128 x 128 x d with operands of `bytes` bytes.
static double productCycles(unsigned d, double bytes) {
  double flopPerCycle = 16384 / bytes; // 8192 BF16, 16384 8-bit, 32768 4-bit
  return 32768.0 * d / flopPerCycle;
}

UnitCycles tileCycles(const Variant &v, const Machine &machine) {
  const double scores = 128 * 128;
  const double d = v.headDim, f = v.emulated;
  UnitCycles u;
  u[Unit::Mufu] = scores * (1 - f) / machine.ex2;
  if (!v.backward) {
    double b = v.operandBytes, bV = v.valueBytes;
    double s = v.twoCta ? 0.5 : 1;
    u[Unit::Tensor] =
        productCycles(v.headDim, b) + productCycles(v.headDim, bV);
    u[Unit::Fma] = scores * (2 + 6 * f) / Machine::fma;
    double maxima = machine.loadReduce ? 0 : scores / 2;
    u[Unit::Alu] = (maxima + 3 * f * scores) / Machine::alu +
                   scores / 2 / Machine::convert8;
    u[Unit::Issue] = scores * (3.15 + 5 * f - (machine.loadReduce ? 0.48 : 0)) /
                     Machine::issue;
    u[Unit::Shared] =
        (128 * d * b * (1 + s) + 128 * d * bV * s) / Machine::sharedBytes;
    u[Unit::TmemLoad] = scores * 4 / Machine::tmemLoadBytes;
    u[Unit::TmemStore] = scores * bV / Machine::tmemStoreBytes;
    // K and V once for two tiles of queries.
    u[Unit::L2Read] = 128 * d * (b + bV) / 2 / Machine::l2ReadBytes;
    return u;
  }
  // S^T, dP^T: both operands from shared memory. dV, dK: A in tensor memory.
  // dQ: dS^T from shared memory. A pair of CTAs shares operands, a quarter
  // less.
  double b = v.operandBytes, enc = v.encodings;
  double operands = b * (7 * d + 128) * (v.twoCta ? 0.75 : 1);
  double store = 128 * b * std::max(1.0, enc);
  double staging = 2 * 128 * d * 4 / Machine::sharedBytes / (v.twoCta ? 2 : 1);
  double exchange =
      v.twoCta ? 192 * b + 48 * b * 2 * std::max(0.0, enc - 1) : 0;
  u[Unit::Tensor] = 5 * productCycles(v.headDim, b);
  u[Unit::Shared] = operands + store + staging + exchange;
  u[Unit::Fma] = scores * (3 + enc + 6 * f) / Machine::fma;
  u[Unit::Alu] = (1 + std::max(enc, 1.0)) * scores / Machine::alu +
                 enc * scores / 128 + 3 * f * scores / Machine::alu;
  u[Unit::L2Reduce] = 128 * d * 4 / Machine::l2ReduceBytes / (v.twoCta ? 2 : 1);
  // Q and dO for every tile of keys, half of each with pairs.
  u[Unit::L2Read] = 2 * 128 * d * b * std::max(1.0, enc) / (v.twoCta ? 2 : 1) /
                    Machine::l2ReadBytes;
  u[Unit::TmemLoad] = 2 * scores * 4 / Machine::tmemLoadBytes;
  u[Unit::TmemStore] = 2 * scores * b / Machine::tmemStoreBytes;
  return u;
}

//===----------------------------------------------------------------------===//
// Points (facts sections 6 and 7)
//===----------------------------------------------------------------------===//

static Variant forward(unsigned headDim, double bytes, const Machine &m) {
  Variant v;
  v.headDim = headDim;
  v.operandBytes = v.valueBytes = bytes;
  // FA4 emulates 4 of 16, and none on sm_103 (attention-kernels.md 3.1); the
  // others are taken to do alike, as facts section 6 does.
  v.emulated = m.loadReduce ? 0 : 0.25;
  v.twoCta = headDim == 128;
  return v;
}

static Variant backward(unsigned headDim, double bytes, bool twoCta,
                        unsigned encodings) {
  Variant v;
  v.backward = true;
  v.headDim = headDim;
  v.operandBytes = v.valueBytes = bytes;
  v.twoCta = twoCta;
  v.encodings = encodings;
  return v;
}

static std::vector<PublishedPoint> makePoints() {
  const Machine &b200 = Machine::b200(), &b300 = Machine::b300();
  const Machine &gb200 = Machine::gb200(), &gb300 = Machine::gb300();
  using U = Unit;
  std::vector<PublishedPoint> points;
  auto add = [&](const char *name, Variant v, const Machine &m, double t,
                 double cycles, std::vector<Unit> binds, const char *source) {
    points.push_back({std::string(name) + " " + m.name, v, &m, t, cycles,
                      std::move(binds), source});
  };
  auto both = [&](const char *name, auto make, double t, double on200,
                  double on300, std::vector<Unit> binds200,
                  std::vector<Unit> binds300, const char *source) {
    add(name, make(gb200), gb200, t, on200, std::move(binds200), source);
    add(name, make(gb300), gb300, t, on300, std::move(binds300), source);
  };
  auto fwd16 = [](const Machine &m) { return forward(128, 2, m); };
  auto fwd8 = [](const Machine &m) { return forward(128, 1, m); };
  auto fwdMx = [](const Machine &m) {
    Variant v = forward(128, 1, m);
    v.blockScaled = true;
    return v;
  };
  auto bwd16 = [](const Machine &) { return backward(128, 2, true, 0); };
  auto bwd8 = [](const Machine &) { return backward(128, 1, true, 1); };
  auto bwdMx = [](const Machine &) {
    Variant v = backward(128, 1, true, 2);
    v.blockScaled = true;
    return v;
  };
  Variant tlx = backward(128, 1, false, 1);
  tlx.blockScaled = true;
  const char *cfe = "cuDNN 9.22, facts section 7";
  both("cuDNN fwd BF16 8K", fwd16, 64, 1368, 1214, {U::Tensor, U::Mufu},
       {U::Tensor}, cfe);
  both("cuDNN fwd MXFP8 8K", fwdMx, 64, 1165, 853, {U::Mufu},
       {U::Tensor, U::Mufu}, cfe);
  both("cuDNN fwd FP8 16K", fwd8, 128, 1071, 769, {U::Mufu},
       {U::Tensor, U::Mufu}, cfe);
  both("cuDNN bwd BF16 8K", bwd16, 64, 4314, 3998, {U::Shared}, {U::Shared},
       cfe);
  both("cuDNN bwd FP8 16K", bwd8, 128, 3299, 2811, {U::L2Reduce}, {U::L2Reduce},
       cfe);
  both("cuDNN bwd MXFP8 16K", bwdMx, 128, 3897, 3624, {U::L2Reduce},
       {U::L2Reduce}, cfe);
  const char *fa4 = "FlashAttention-4, facts section 7";
  add("FA4 fwd d128 32K", fwd16(b200), b200, 256, 1424, {U::Tensor, U::Mufu},
      fa4);
  add("FA4 fwd d128 16K", fwd16(b300), b300, 128, 1264, {U::Tensor}, fa4);
  add("FA4 fwd d64 16K", forward(64, 2, b300), b300, 128, 961,
      {U::Tensor, U::Mufu}, fa4);
  add("Helion fwd d64 32K", forward(64, 2, gb300), gb300, 256, 938,
      {U::Tensor, U::Mufu}, "Helion, facts section 7");
  add("FA4 bwd d64 32K", backward(64, 2, false, 0), b200, 256, 3414,
      {U::L2Reduce}, fa4);
  add("FA4 bwd causal 8K", bwd16(gb200), gb200, 32.5, 4317, {U::Shared}, fa4);
  add("TLX MXFP8 bwd 8K", tlx, b200, 64, (6739 + 5719) / 2.0, {U::L2Reduce},
      "TLX, 852 to 1004 TFLOP/s, facts section 7");
  // cuDNN's series as its law has them (within 4.5%), at 2048 tokens.
  const char *law = "cuDNN 9.22, law of facts section 6";
  auto at16 = [](double a, double h) { return a + h / 16; };
  both("cuDNN fwd BF16 2K", fwd16, 16, at16(1338, 5500), at16(1188, 2800),
       {U::Tensor, U::Mufu}, {U::Tensor}, law);
  both("cuDNN fwd FP8 2K", fwd8, 16, at16(1028, 4100), at16(744, 2400),
       {U::Mufu}, {U::Tensor, U::Mufu}, law);
  both("cuDNN fwd MXFP8 2K", fwdMx, 16, at16(1109, 4300), at16(816, 3000),
       {U::Mufu}, {U::Tensor, U::Mufu}, law);
  both("cuDNN bwd BF16 2K", bwd16, 16, at16(4082, 19000), at16(3733, 20000),
       {U::Shared}, {U::Shared}, law);
  both("cuDNN bwd FP8 2K", bwd8, 16, at16(2959, 32000), at16(2481, 30000),
       {U::L2Reduce}, {U::L2Reduce}, law);
  both("cuDNN bwd MXFP8 2K", bwdMx, 16, at16(3565, 33000), at16(3300, 31000),
       {U::L2Reduce}, {U::L2Reduce}, law);
  return points;
}

const std::vector<PublishedPoint> &publishedPoints() {
  static const std::vector<PublishedPoint> points = makePoints();
  return points;
}

//===----------------------------------------------------------------------===//
// Law
//===----------------------------------------------------------------------===//

static double norm(const UnitCycles &units, double p) {
  double bound = units.bound(), sum = 0;
  if (bound <= 0)
    return 0;
  // What a diagonal tile needs less of than others counts negative in rows.
  for (double u : units.cycles)
    sum += std::pow(std::max(0.0, u) / bound, p);
  return bound * std::pow(sum, 1 / p);
}

double Law::steady(const UnitCycles &units, bool blockScaled) const {
  return c * norm(units, p) + (blockScaled ? scaled : 0);
}

double Law::row(const Variant &v) const {
  return !v.backward ? rowForward : v.encodings ? rowBackward8 : rowBackward;
}

double Law::predict(const PublishedPoint &point) const {
  const Variant &v = point.variant;
  return steady(tileCycles(v, *point.machine), v.blockScaled) +
         row(v) / point.tilesPerRow;
}

double meanError(const Law &law, llvm::ArrayRef<PublishedPoint> points) {
  double sum = 0;
  for (const PublishedPoint &point : points)
    sum += std::abs(law.predict(point) / point.cycles - 1);
  return points.empty() ? 0 : sum / double(points.size());
}

namespace {
/// Normal equations of the law's linear part. Unknowns: c, s, and the three h
/// in thousands.
constexpr unsigned numUnknowns = 5;
struct Equations {
  double a[numUnknowns][numUnknowns + 1] = {};
  void add(const double (&x)[numUnknowns], double y) {
    for (unsigned r = 0; r < numUnknowns; ++r) {
      for (unsigned c = 0; c < numUnknowns; ++c)
        a[r][c] += x[r] * x[c];
      a[r][numUnknowns] += x[r] * y;
    }
  }
  /// Gauss-Jordan; an unknown that no point speaks of is 0.
  void solve() {
    for (unsigned k = 0; k < numUnknowns; ++k) {
      unsigned pivot = k;
      for (unsigned r = k + 1; r < numUnknowns; ++r)
        if (std::abs(a[r][k]) > std::abs(a[pivot][k]))
          pivot = r;
      std::swap(a[k], a[pivot]);
      if (std::abs(a[k][k]) < 1e-12)
        a[k][k] = 1;
      for (unsigned r = 0; r < numUnknowns; ++r) {
        double factor = r == k ? 0 : a[r][k] / a[k][k];
        for (unsigned c = k; factor != 0 && c <= numUnknowns; ++c)
          a[r][c] -= factor * a[k][c];
      }
    }
  }
  double unknown(unsigned k) const {
    return std::max(0.0, a[k][numUnknowns] / a[k][k]);
  }
};
} // namespace

Law fit(llvm::ArrayRef<PublishedPoint> points) {
  Law best;
  double bestError = HUGE_VAL;
  // For a given p the law is linear in the others.
  for (int step = 10; step <= 100; ++step) {
    double p = step / 10.0;
    Equations equations;
    for (const PublishedPoint &point : points) {
      const Variant &v = point.variant;
      double x[numUnknowns] = {};
      x[0] = norm(tileCycles(v, *point.machine), p) / point.cycles;
      x[1] = (v.blockScaled ? 1 : 0) / point.cycles;
      x[!v.backward   ? 2
        : v.encodings ? 4
                      : 3] = 1000 / point.tilesPerRow / point.cycles;
      equations.add(x, 1);
    }
    equations.solve();
    Law law;
    law.p = p;
    law.c = equations.unknown(0);
    law.scaled = equations.unknown(1);
    law.rowForward = 1000 * equations.unknown(2);
    law.rowBackward = 1000 * equations.unknown(3);
    law.rowBackward8 = 1000 * equations.unknown(4);
    double error = 0;
    for (const PublishedPoint &point : points)
      error += std::pow(law.predict(point) / point.cycles - 1, 2);
    if (error < bestError) {
      bestError = error;
      best = law;
    }
  }
  return best;
}

const Law &calibratedLaw() {
  static const Law law = fit(publishedPoints());
  return law;
}

// Points come in pairs of GPUs: take the first of one pair and the second of
// the next, so that each half holds both GPUs and every kind of kernel.
static std::vector<PublishedPoint> half(bool fitting) {
  std::vector<PublishedPoint> result;
  const std::vector<PublishedPoint> &points = publishedPoints();
  for (size_t k = 0; k < points.size(); ++k)
    if ((k % 2 == 0) == fitting)
      result.push_back(points[k]);
  return result;
}

std::vector<PublishedPoint> fittingHalf() { return half(true); }
std::vector<PublishedPoint> heldOutHalf() { return half(false); }

static std::string unitList(llvm::ArrayRef<Unit> units) {
  std::string text;
  for (Unit u : units)
    text += (text.empty() ? "" : "+") + nameOf(u).str();
  return text;
}

std::string calibrationTable() {
  std::vector<PublishedPoint> fitting = fittingHalf();
  Law halfLaw = fit(fitting);
  const Law &law = calibratedLaw();
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "| point | bound | unit | published | fitted on half | | fitted on all "
        "| |\n|---|---|---|---|---|---|---|---|\n";
  for (const PublishedPoint &point : publishedPoints()) {
    UnitCycles units = tileCycles(point.variant, *point.machine);
    bool held = llvm::none_of(
        fitting, [&](const PublishedPoint &q) { return q.name == point.name; });
    double a = halfLaw.predict(point), b = law.predict(point);
    os << llvm::formatv(
        "| {0} | {1:f0} | {2} | {3:f0} | {4:f0} | {5}{6:f1}%{7} "
        "| {8:f0} | {9}{10:f1}% |\n",
        point.name, units.bound(), unitList(units.bottlenecks()), point.cycles,
        a, a < point.cycles ? "" : "+", 100 * (a / point.cycles - 1),
        held ? " held out" : "", b, b < point.cycles ? "" : "+",
        100 * (b / point.cycles - 1));
  }
  auto describe = [&](const char *name, const Law &l) {
    os << llvm::formatv(
        "{0}: p = {1:f1}, c = {2:f3}, s = {3:f0}, h = {4:f0} "
        "(forward), {5:f0} (backward, BF16), {6:f0} (backward, 8 "
        "bits); mean error {7:f1}% on the fitted half, {8:f1}% on "
        "the held-out half.\n",
        name, l.p, l.c, l.scaled, l.rowForward, l.rowBackward, l.rowBackward8,
        100 * meanError(l, fitting), 100 * meanError(l, heldOutHalf()));
  };
  os << "\n";
  describe("Fitted on half", halfLaw);
  os << "\n";
  describe("Fitted on all", law);
  return text;
}

MeasuredLaw bestBf16(bool backward, unsigned headDim, const Machine &machine) {
  bool b300 = machine.arch == "sm_103a";
  if (headDim == 128) {
    if (backward)
      return b300 ? MeasuredLaw{3733, 20000} : MeasuredLaw{4082, 19000};
    return b300 ? MeasuredLaw{1188, 2800} : MeasuredLaw{1338, 5500};
  }
  // Section 7: Helion's forward on GB300, FA4's backward on B200; what is
  // published of the other GPU is slower, and h is taken from D = 128.
  if (backward)
    return {3414 - 19000 / 256.0, 19000};
  return {938 - 2800 / 256.0, b300 ? 2800.0 : 5500.0};
}

} // namespace model
} // namespace flamia
