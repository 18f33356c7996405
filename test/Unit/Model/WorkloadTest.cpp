//===- WorkloadTest.cpp - Times of workloads, and pictures ----------------===//

#include "flamia/Model/Workload.h"
#include "flamia/Model/Picture.h"
#include "flamia/Model/Published.h"

#include "gtest/gtest.h"

using namespace flamia;
using namespace flamia::model;

namespace {

TEST(Workload, Bf16FollowsThePublishedLaw) {
  Workload w;
  w.lengths = {8192};
  w.heads = 152;
  w.causal = false;
  w.backward = false;
  // One head an SM: 64 x 64 tiles of 1338 cycles, 64 rows of 5500 more.
  double cycles = 64.0 * 64 * 1338 + 64 * 5500;
  EXPECT_NEAR(bf16Seconds(w, Machine::gb200()), cycles / 1.90e9, 1e-9);
  w.causal = true;
  cycles = 64.0 * 65 / 2 * 1338 + 64 * 5500;
  EXPECT_NEAR(bf16Seconds(w, Machine::gb200()), cycles / 1.90e9, 1e-9);
}

/// A kernel with a tile of 1000 cycles (chain) and a row of 4000.
WorkloadKernel kernel(const char *name, const char *headsName) {
  WorkloadKernel k;
  k.record.kernel = name;
  k.record.block = {192, 1, 1};
  runtime::RecordArgument q;
  q.name = "q";
  q.element = runtime::Element::F8E4M3FN;
  q.dims = {std::nullopt, std::nullopt, 128u};
  q.dimNames = {"tokens", headsName, "head_dim"};
  k.record.arguments = {q};
  k.record.grid[1].fromArgument = true;
  k.record.grid[1].dim = 1;
  RoleCounts role;
  role.name = "vector";
  role.units[Unit::Mufu] = 500;
  k.model.counts.kernel = name;
  k.model.counts.arch = "sm_100a";
  k.model.counts.tile.roles = {role};
  k.model.counts.row.roles = {role};
  k.model.overlapped = 600;
  k.model.chain = 1000;
  k.model.rowChain = 4000;
  return k;
}

TEST(Workload, AddsTilesAndRows) {
  Workload w;
  w.lengths = {384}; // 1 + 2 + 3 tiles
  w.heads = 8;
  w.kvHeads = 2;
  w.backward = false;
  Machine one = Machine::b200();
  one.sms = 1;
  WorkloadTime t = predict(w, {kernel("attention_fwd", "heads")}, one);
  ASSERT_EQ(t.kernels.size(), 1u);
  EXPECT_EQ(t.kernels[0].tiles, 8 * 6);
  EXPECT_NEAR(t.seconds * 1.85e9, 8 * (6 * 1000 + 3 * 4000), 1);
  EXPECT_EQ(t.kernels[0].limit, "serial chain");
  double row = calibratedLaw().rowForward;
  EXPECT_NEAR(t.secondsOverlapped * 1.85e9, 8 * (6 * 600 + 3 * row), 1);
  // A CTA a kv head does the tiles of its four query heads.
  t = predict(w, {kernel("attention_fwd", "kv_heads")}, one);
  EXPECT_EQ(t.kernels[0].tiles, 8 * 6);
  EXPECT_NEAR(t.seconds * 1.85e9, 8 * 6 * 1000 + 2 * 3 * 4000, 1);
  // More SMs than CTAs: the longest one counts.
  t = predict(w, {kernel("attention_fwd", "heads")}, Machine::b200());
  EXPECT_NEAR(t.seconds * 1.85e9, 3 * 1000 + 4000, 1);
}

TEST(Workload, StreamingKernelsAreBoundByMemory) {
  WorkloadKernel k = kernel("quantize_qkv", "heads");
  k.model.counts.tile.roles.clear();
  k.model.rowUnits = 10;
  k.model.rowChain = 10;
  Workload w;
  w.lengths = {1 << 20};
  w.backward = false;
  WorkloadTime t = predict(w, {k}, Machine::b200());
  EXPECT_EQ(t.kernels[0].limit, "memory");
  EXPECT_NEAR(t.seconds, double(1 << 20) * 64 * 128 / 6.0e12, 1e-9);
  // Slow ones by their units: a row is a tile of Q, of K and of V.
  k.model.rowUnits = 60000;
  t = predict(w, {k}, Machine::b200());
  EXPECT_EQ(t.kernels[0].limit, "mufu");
  EXPECT_NEAR(t.seconds * 148 * 1.85e9, 8192.0 * (64 + 2 * 8) / 3 * 60000, 1e3);
  k.model.rowsPerCta = 1 / 3.0;
  EXPECT_EQ(predict(w, {k}, Machine::b200()).seconds, t.seconds);
}

TEST(Picture, IsDeterministic) {
  std::vector<KernelModel> models = {kernel("attention_fwd", "heads").model};
  std::string svg = picture(models);
  EXPECT_EQ(svg, picture(models));
  EXPECT_EQ(
      svg,
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="640" height="96" font-family="sans-serif" font-size="12">
<rect width="640" height="96" fill="#fff"/>
<text x="8.0" y="20.0" text-anchor="start">attention_fwd (sm_100a), modelled cycles per score tile</text>
<text x="84.0" y="42.0" text-anchor="end">mufu</text>
<rect x="90.0" y="30.0" width="265.0" height="16.0" fill="#4878a8"><title>vector: 500</title></rect>
<text x="359.0" y="42.0" text-anchor="start">500</text>
<line x1="408.0" y1="28.0" x2="408.0" y2="52.0" stroke="#222" stroke-dasharray="4 3"/>
<text x="408.0" y="62.0" text-anchor="end">as overlapped as published kernels 600</text>
<line x1="620.0" y1="28.0" x2="620.0" y2="52.0" stroke="#222" stroke-dasharray="1 2"/>
<text x="620.0" y="76.0" text-anchor="end">in the order of the channels 1000</text>
</svg>
)");
}

} // namespace
