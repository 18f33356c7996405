//===- Mma.cpp - Execution of tcgen05.mma ---------------------------------===//

#include "flamia/Sim/Units/Mma.h"
#include "Message.h"
#include "MmaBlocks.h"
#include "MmaElement.h"
#include "MmaKernel.h"
#include "MmaOperands.h"
#include <cstring>

namespace flamia::sim {

namespace {

/// Buffers that live from instruction to instruction, one set a host thread.
struct Scratch {
  DecodedRows a, b;
  DecodedScales sfa, sfb;
  std::vector<uint32_t> c, d; ///< [column][rowStride]
  std::vector<float> aSig, bSig;
  std::vector<int32_t> aExp, bExp;
};

/// One element that the vector kernel cannot do.
struct Special {
  unsigned m;
  unsigned column;
  uint32_t value;
};

/// An instruction's work in one CTA.
class Runner {
public:
  Runner(const MmaPlan &plan, const MmaCta *ctas, unsigned cta,
         MmaNumerics numerics, Scratch &scratch, IssueList &issues)
      : plan(plan), idesc(plan.idesc), ctas(ctas), cta(cta),
        tmem(*ctas[cta].tmem), numerics(numerics), scratch(scratch),
        issues(issues) {}

  bool run();

private:
  bool loadA(const MmaBlock &block);
  bool loadB();
  void loadScales();
  void prepareScales(const MmaBlock &block);
  void loadC(const MmaBlock &block);
  void compute(const MmaBlock &block);
  void computeInteger(const MmaBlock &block);
  void findSpecials(const MmaBlock &block, const MmaContext &context);
  void store(const MmaBlock &block);
  uint32_t element(const MmaBlock &block, const MmaContext &context, unsigned m,
                   unsigned column) const;
  bool checkInitialised(const MmaBlock &block, unsigned column,
                        unsigned columns, const char *what);

  const MmaPlan &plan;
  const InstrDescriptor &idesc;
  const MmaCta *ctas;
  unsigned cta;
  Tmem &tmem;
  MmaNumerics numerics;
  Scratch &scratch;
  IssueList &issues;
  std::vector<Special> specials;
};

bool Runner::checkInitialised(const MmaBlock &block, unsigned column,
                              unsigned columns, const char *what) {
  uint64_t needed[2] = {0, 0};
  for (unsigned row = 0; row < block.rows; ++row)
    needed[block.lane(row) / 64] |= uint64_t(1) << (block.lane(row) % 64);
  for (unsigned c = column; c < column + columns; ++c)
    for (unsigned word = 0; word < 2; ++word) {
      uint64_t missing = needed[word] & ~tmem.initialised(c)[word];
      if (!missing)
        continue;
      complain(issues, IssueKind::Uninitialised,
               "tcgen05.mma reads %s in tensor memory lane %u, column %u, "
               "which was never written",
               what, 64 * word + unsigned(__builtin_ctzll(missing)), c);
      return false;
    }
  return true;
}

bool Runner::loadA(const MmaBlock &block) {
  DecodedRows &a = scratch.a;
  a.rows = block.rows;
  a.k = idesc.k;
  a.rowStep = 1;
  a.kStep = rowStride;
  a.type = idesc.aType;
  a.negate = idesc.negateA;
  a.raw.resize(rowStride * 32);
  if (!plan.instr.aInTmem) {
    if (!plan.a.gather(ctas[cta].smem, a.raw.data(), "tcgen05.mma operand A",
                       issues))
      return false;
    if (idesc.k == 32)
      expandPaddedRows(a.type, a.raw.data(), a.rows);
  } else {
    unsigned column = tmemColumn(uint32_t(plan.instr.a));
    if (!tmem.checkColumns(column, 8, "tcgen05.mma operand A", issues))
      return false;
    checkInitialised(block, column, 8, "operand A");
    for (unsigned c = 0; c < 8; ++c)
      for (unsigned row = 0; row < a.rows; ++row) {
        unsigned lane = block.lane(row);
        // .ashift: every row takes the next one, but not across lane groups.
        if (plan.instr.aShift && lane % 32 != 31)
          ++lane;
        uint32_t word = tmem.read(lane, column + c);
        std::memcpy(a.raw.data() + row * 32 + c * 4, &word, 4);
      }
  }
  a.decode();
  return true;
}

bool Runner::loadB() {
  DecodedRows &b = scratch.b;
  b.rows = idesc.n;
  b.k = idesc.k;
  b.rowStep = idesc.k;
  b.kStep = 1;
  b.type = idesc.bType;
  b.negate = idesc.negateB;
  b.raw.resize(size_t(b.rows) * 32);
  unsigned perCta = idesc.n / idesc.ctaGroup;
  for (unsigned i = 0; i < idesc.ctaGroup; ++i)
    if (!plan.b.gather(ctas[i].smem, b.raw.data() + size_t(i) * perCta * 32,
                       "tcgen05.mma operand B", issues))
      return false;
  if (idesc.k == 32)
    expandPaddedRows(b.type, b.raw.data(), b.rows);
  b.decode();
  return true;
}

void Runner::loadScales() {
  unsigned perRow = scalesPerRow(idesc);
  if (perRow == 0)
    return;
  // In layout B each half of the lanes has its own half of N.
  unsigned replicas = dColumns(idesc) == idesc.n ? 4 : 2;
  scratch.sfa.read(tmem, plan.instr.sfa, idesc.sfaId, idesc.m / idesc.ctaGroup,
                   perRow, idesc.scaleType, 4, "A", issues);
  scratch.sfb.read(tmem, plan.instr.sfb, idesc.sfbId, dColumns(idesc), perRow,
                   idesc.scaleType, replicas, "B", issues);
}

/// Scale factors in the shape the kernels want; entries of a group are those of
/// section 11.2 (two of them share a scale when the block is 32).
void Runner::prepareScales(const MmaBlock &block) {
  unsigned perRow = scalesPerRow(idesc);
  unsigned entries = idesc.k == 64 ? 4 : 1;
  scratch.aExp.assign(entries * rowStride, 0);
  scratch.aSig.assign(entries * rowStride, 1.0f);
  scratch.bExp.assign(4 * block.columns * entries, 0);
  scratch.bSig.assign(4 * block.columns * entries, 1.0f);
  if (perRow == 0)
    return;
  for (unsigned row = 0; row < block.rows; ++row)
    for (unsigned g = 0; g < entries; ++g) {
      unsigned group = block.lane(row) / 32;
      uint8_t code = scratch.sfa.code(group, row, g * perRow / entries);
      scratch.aExp[g * rowStride + row] = scratch.sfa.exponent(code);
      scratch.aSig[g * rowStride + row] = scratch.sfa.significand(code);
    }
  for (unsigned group = 0; group < 4; ++group)
    for (unsigned n = 0; n < block.columns; ++n)
      for (unsigned g = 0; g < entries; ++g) {
        uint8_t code = scratch.sfb.code(group, n, g * perRow / entries);
        unsigned index = (group * block.columns + n) * entries + g;
        scratch.bExp[index] = scratch.sfb.exponent(code);
        scratch.bSig[index] = scratch.sfb.significand(code);
      }
}

void Runner::loadC(const MmaBlock &block) {
  scratch.c.assign(size_t(block.columns) * rowStride, 0);
  if (!plan.instr.enableInputD)
    return;
  unsigned column = tmemColumn(plan.instr.d);
  checkInitialised(block, column, block.columns, "accumulator D");
  for (unsigned n = 0; n < block.columns; ++n) {
    const uint32_t *from = tmem.column(column + n);
    uint32_t *to = scratch.c.data() + size_t(n) * rowStride;
    if (!block.scattered)
      std::memcpy(to, from + block.firstLane, block.rows * sizeof(uint32_t));
    else
      for (unsigned row = 0; row < block.rows; ++row)
        to[row] = from[block.lane(row)];
  }
}

uint32_t Runner::element(const MmaBlock &block, const MmaContext &context,
                         unsigned m, unsigned column) const {
  return mmaElement(context, block.lane(m) / 32, m, block.firstN + column,
                    column, scratch.c[size_t(column) * rowStride + m]);
}

void Runner::findSpecials(const MmaBlock &block, const MmaContext &context) {
  specials.clear();
  auto add = [&](unsigned m, unsigned column) {
    specials.push_back({m, column, element(block, context, m, column)});
  };
  bool anyRow = scratch.a.anyFlag || scratch.b.anyFlag;
  bool anyScale = context.sfa && (context.sfa->anyNaN || context.sfb->anyNaN);
  for (unsigned n = 0; n < block.columns; ++n) {
    const uint32_t *c = scratch.c.data() + size_t(n) * rowStride;
    bool anyC = false;
    // Inf, NaN and -0, which decides the sign of a zero result.
    for (unsigned m = 0; m < block.rows; ++m)
      anyC |= (c[m] & 0x7f800000) == 0x7f800000 || c[m] == 0x80000000;
    if (!anyC && !anyRow && !anyScale)
      continue;
    for (unsigned m = 0; m < block.rows; ++m) {
      bool special = (c[m] & 0x7f800000) == 0x7f800000 || c[m] == 0x80000000 ||
                     scratch.a.flags[m] || scratch.b.flags[block.firstN + n];
      unsigned group = block.lane(m) / 32;
      for (unsigned j = 0; anyScale && j < context.sfa->perRow; ++j)
        special |= context.sfa->isNaN(context.sfa->code(group, m, j)) ||
                   context.sfb->isNaN(context.sfb->code(group, n, j));
      if (special)
        add(m, n);
    }
  }
}

void Runner::computeInteger(const MmaBlock &block) {
  const DecodedRows &a = scratch.a;
  const DecodedRows &b = scratch.b;
  for (unsigned n = 0; n < block.columns; ++n)
    for (unsigned m = 0; m < block.rows; ++m) {
      size_t index = size_t(n) * rowStride + m;
      int64_t sum = int32_t(scratch.c[index]);
      for (unsigned k = 0; k < idesc.k; ++k)
        sum += int64_t(a.value[k * rowStride + m]) *
               int64_t(b.value[(block.firstN + n) * idesc.k + k]);
      if (idesc.saturate)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
      scratch.d[index] = uint32_t(sum);
    }
}

void Runner::compute(const MmaBlock &block) {
  scratch.d.resize(size_t(block.columns) * rowStride);
  if (idesc.kind == MmaKind::I8)
    return computeInteger(block);

  bool scaled = isBlockScaled(idesc.kind);
  MmaContext context{&idesc,
                     &scratch.a,
                     &scratch.b,
                     scaled ? &scratch.sfa : nullptr,
                     scaled ? &scratch.sfb : nullptr,
                     plan.instr.scaleInputD,
                     numerics};
  if (idesc.accum == AccumType::F16 || plan.instr.scaleInputD != 0) {
    for (unsigned n = 0; n < block.columns; ++n)
      for (unsigned m = 0; m < block.rows; ++m)
        scratch.d[size_t(n) * rowStride + m] = element(block, context, m, n);
    return;
  }

  prepareScales(block);
  findSpecials(block, context);
  const uint32_t *c = plan.instr.enableInputD ? scratch.c.data() : nullptr;
  const float *b = scratch.b.value.data() + size_t(block.firstN) * idesc.k;
  if (numerics != MmaNumerics::BitAccurate)
    runPlain({scratch.a.value.data(), b, scratch.aSig.data(),
              scratch.aExp.data(), scratch.bSig.data(), scratch.bExp.data(),
              block.firstLane / 32, block.rows, block.columns, idesc.k,
              idesc.k == 64 ? 4u : 1u, c, scratch.d.data(),
              numerics == MmaNumerics::Fp64});
  else if (idesc.k == 64)
    runGrouped({scratch.a.value.data(), b, scratch.aSig.data(),
                scratch.aExp.data(), scratch.bSig.data(), scratch.bExp.data(),
                block.firstLane / 32, block.rows, block.columns, c,
                scratch.d.data()});
  else
    runAligned({scratch.a.value.data(), scratch.a.exponent.data(), b,
                scratch.b.exponent.data() + size_t(block.firstN) * idesc.k,
                scratch.aExp.data(), scratch.bExp.data(),
                scaled ? block.columns : 0, block.firstLane / 32, block.rows,
                block.columns, idesc.k, c, scratch.d.data(),
                scratch.a.wide || scratch.b.wide});
  for (const Special &special : specials)
    scratch.d[size_t(special.column) * rowStride + special.m] = special.value;
}

void Runner::store(const MmaBlock &block) {
  unsigned column = tmemColumn(plan.instr.d);
  uint64_t lanes[2] = {0, 0};
  for (unsigned row = 0; row < block.rows; ++row) {
    unsigned lane = block.lane(row);
    // The second CTA of a pair takes the upper four registers.
    bool disabled =
        plan.instr.hasLaneMask &&
        ((plan.instr.disableLanes[4 * cta + lane / 32] >> (lane % 32)) & 1);
    if (!disabled)
      lanes[lane / 64] |= uint64_t(1) << (lane % 64);
  }
  for (unsigned n = 0; n < block.columns; ++n) {
    const uint32_t *from = scratch.d.data() + size_t(n) * rowStride;
    uint32_t *to = tmem.column(column + n);
    if (!block.scattered && !plan.instr.hasLaneMask)
      std::memcpy(to + block.firstLane, from, block.rows * sizeof(uint32_t));
    else
      for (unsigned row = 0; row < block.rows; ++row) {
        unsigned lane = block.lane(row);
        if ((lanes[lane / 64] >> (lane % 64)) & 1)
          to[lane] = from[row];
      }
    tmem.initialised(column + n)[0] |= lanes[0];
    tmem.initialised(column + n)[1] |= lanes[1];
  }
}

bool Runner::run() {
  unsigned dBase = tmemColumn(plan.instr.d);
  if (!tmem.checkColumns(dBase, dColumns(idesc), "tcgen05.mma D", issues))
    return false;
  if (isBlockScaled(idesc.kind) &&
      (!tmem.checkColumns(tmemColumn(plan.instr.sfa),
                          (idesc.m / idesc.ctaGroup + 31) / 32,
                          "tcgen05.mma scale A", issues) ||
       !tmem.checkColumns(tmemColumn(plan.instr.sfb),
                          (dColumns(idesc) + 31) / 32, "tcgen05.mma scale B",
                          issues)))
    return false;
  if (!loadB())
    return false;
  loadScales();
  for (const MmaBlock &block : mmaBlocks(idesc, plan.instr.d)) {
    if (!loadA(block))
      return false;
    loadC(block);
    compute(block);
    store(block);
  }
  return true;
}

} // namespace

bool runMma(const MmaPlan &plan, const MmaCta *ctas, MmaNumerics numerics,
            IssueList &issues) {
  static thread_local Scratch scratch;
  for (unsigned cta = 0; cta < plan.idesc.ctaGroup; ++cta)
    if (!Runner(plan, ctas, cta, numerics, scratch, issues).run())
      return false;
  return true;
}

} // namespace flamia::sim
