//===- Machine.cpp - Units and rates --------------------------------------===//

#include "flamia/Model/Machine.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace flamia {
namespace model {

llvm::StringRef nameOf(Unit unit) {
  static const char *const names[numUnits] = {
      "tensor", "mufu",    "fma",     "alu",       "issue",
      "shared", "tmem.ld", "tmem.st", "l2.reduce", "l2.read"};
  return names[unsigned(unit)];
}

UnitCycles &UnitCycles::operator+=(const UnitCycles &other) {
  for (unsigned u = 0; u < numUnits; ++u)
    cycles[u] += other.cycles[u];
  return *this;
}

UnitCycles UnitCycles::operator*(double factor) const {
  UnitCycles result = *this;
  for (double &c : result.cycles)
    c *= factor;
  return result;
}

double UnitCycles::bound() const { return (*this)[bottleneck()]; }

Unit UnitCycles::bottleneck() const {
  return Unit(std::max_element(cycles.begin(), cycles.end()) - cycles.begin());
}

std::vector<Unit> UnitCycles::bottlenecks(double share) const {
  std::vector<Unit> result;
  for (unsigned u = 0; u < numUnits; ++u)
    if (cycles[u] > 0 && cycles[u] >= share * bound())
      result.push_back(Unit(u));
  llvm::sort(result, [&](Unit a, Unit b) {
    return (*this)[a] != (*this)[b] ? (*this)[a] > (*this)[b] : a < b;
  });
  return result;
}

static Machine machine(const char *name, bool b300, unsigned sms,
                       double clock) {
  Machine m;
  m.name = name;
  m.arch = b300 ? "sm_103a" : "sm_100a";
  m.sms = sms;
  m.clockGHz = clock;
  m.ex2 = b300 ? 32 : 16;
  m.loadReduce = b300;
  return m;
}

const Machine &Machine::b200() {
  static const Machine m = machine("B200", false, 148, 1.85);
  return m;
}
const Machine &Machine::b300() {
  static const Machine m = machine("B300", true, 148, 1.92);
  return m;
}
const Machine &Machine::gb200() {
  static const Machine m = machine("GB200", false, 152, 1.90);
  return m;
}
const Machine &Machine::gb300() {
  static const Machine m = machine("GB300", true, 152, 1.92);
  return m;
}

const Machine *Machine::find(llvm::StringRef name) {
  for (const Machine *m : {&b200(), &b300(), &gb200(), &gb300()})
    if (name == m->name)
      return m;
  return nullptr;
}

double mmaCycles(unsigned m, unsigned n, bool aInTmem, unsigned ctaGroup,
                 const Machine &machine) {
  double half = n / 2.0;
  if (ctaGroup == 2) {
    // Pairs of M = 256 reach N/2 from N = 112 on; 43 at N = 64.
    double cycles = aInTmem ? half : std::max(half, 32 + 11.0 * n / 64);
    return m == 128 ? cycles / 2 : cycles;
  }
  if (machine.ex2 > 16) // B300: a floor of 44 cycles either way.
    return std::max(44.0, half);
  return aInTmem ? half : std::max(half, 32 + n / 4.0);
}

} // namespace model
} // namespace flamia
