//===- units_on_gpu.cpp - The simulator's units against a real GPU --------===//
//
// What sm_90 shares with Blackwell: conversions of narrow formats, the tensor
// map encoder's rules, tensor loads, stores and reductions. Runs PTX through
// libcuda and compares every bit with lib/Sim/Units. Exits with 77 without a
// GPU. Needs nothing but a C++17 compiler:
//
//   c++ -std=c++17 -O2 -Iinclude test/Sim/Hardware/units_on_gpu.cpp
//     lib/Sim/Units/{Convert,TensorMap,TmaCopy,TmaReduce}.cpp -ldl
//
//===----------------------------------------------------------------------===//

#include "Driver.h"
#include "flamia/Sim/Units/Convert.h"
#include "flamia/Sim/Units/TensorMap.h"
#include <cstring>
#include <functional>
#include <random>
#include <vector>

using namespace flamia::sim;
using hw::DevicePtr;
using hw::Driver;
using hw::Handle;

namespace {

const char *header = ".version 8.6\n.target sm_90a\n.address_size 64\n";
unsigned failures = 0;
bool verbose = false; ///< --verbose: describe mismatches in full

void print(const char *label, const uint64_t *values, unsigned count) {
  std::printf(" %s", label);
  for (unsigned i = 0; i < count; ++i)
    std::printf(" %llx", static_cast<unsigned long long>(values[i]));
}

void describe(const TensorMap &map) {
  uint64_t box[5], steps[5];
  for (unsigned d = 0; d < 5; ++d) {
    box[d] = map.box[d];
    steps[d] = map.elementStrides[d];
  }
  std::printf("    type %d swizzle %d interleave %d fill %d l2 %d address %llx",
              int(map.type), int(map.swizzle), int(map.interleave),
              int(map.fill), map.l2Promotion,
              static_cast<unsigned long long>(map.address));
  print("dims", map.dims.data(), map.rank);
  print("strides", map.strides.data(), map.rank ? map.rank - 1 : 0);
  print("box", box, map.rank);
  print("steps", steps, map.rank);
}

void report(const std::string &name, size_t checked, size_t wrong) {
  std::printf("%-52s %9zu checked, %zu wrong\n", name.c_str(), checked, wrong);
  failures += wrong != 0;
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/// d = op(a, b) for 32-bit registers; 16-bit sources and results are moved.
struct Conversion {
  std::string op;
  enum { PairTo16, PairTo32, WordTo16, HalfTo32, WordTo32, WordToHalf } form;
  std::function<void(const uint32_t *, const uint32_t *, uint32_t *, unsigned)>
      model;
};

std::string conversionPtx(const Conversion &c) {
  std::string body;
  switch (c.form) {
  case Conversion::PairTo16:
    body = c.op + " h, a, b; cvt.u32.u16 d, h;";
    break;
  case Conversion::PairTo32:
    body = c.op + " d, a, b;";
    break;
  case Conversion::WordTo16:
  case Conversion::WordToHalf:
    body = c.op + " h, a; cvt.u32.u16 d, h;";
    break;
  case Conversion::HalfTo32:
    body = "cvt.u16.u32 h, a; " + c.op + " d, h;";
    break;
  case Conversion::WordTo32:
    body = c.op + " d, a;";
    break;
  }
  return std::string(header) +
         ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd) {\n"
         ".reg .b32 a, b, d, i, n, t; .reg .b16 h; .reg .b64 x, y, z, o;\n"
         "ld.param.u64 x, [pa]; ld.param.u64 y, [pb]; ld.param.u64 z, [pd];\n"
         "mov.u32 i, %ctaid.x; mov.u32 n, %ntid.x; mov.u32 t, %tid.x;\n"
         "mad.lo.u32 i, i, n, t; mul.wide.u32 o, i, 4;\n"
         "add.u64 x, x, o; add.u64 y, y, o; add.u64 z, z, o;\n"
         "ld.global.b32 a, [x]; ld.global.b32 b, [y];\n" +
         body + "\nst.global.b32 [z], d; ret;\n}\n";
}

std::vector<Conversion> conversions() {
  std::vector<Conversion> all;
  for (bool relu : {false, true}) {
    std::string r = relu ? ".relu" : "";
    for (auto [format, name] : {std::pair(Narrow::E4M3, "e4m3x2"),
                                std::pair(Narrow::E5M2, "e5m2x2")}) {
      Narrow f = format;
      all.push_back({"cvt.rn.satfinite" + r + "." + name + ".f32",
                     Conversion::PairTo16,
                     [=](auto *a, auto *b, auto *d, unsigned n) {
                       f32x2ToNarrowx2(f, relu, a, b, d, n);
                     }});
      all.push_back({"cvt.rn.satfinite" + r + "." + name + ".f16x2",
                     Conversion::WordTo16,
                     [=](auto *a, auto *, auto *d, unsigned n) {
                       f16x2ToNarrowx2(f, relu, a, d, n);
                     }});
      all.push_back({"cvt.rn" + r + ".f16x2." + name, Conversion::HalfTo32,
                     [=](auto *a, auto *, auto *d, unsigned n) {
                       narrowx2ToF16x2(f, relu, a, d, n);
                     }});
    }
    for (auto [round, mode] :
         {std::pair(Round::Rn, "rn"), std::pair(Round::Rz, "rz")}) {
      Round rd = round;
      std::string m = mode;
      for (bool sat : {false, true}) {
        std::string s = r + (sat ? ".satfinite" : "");
        all.push_back({"cvt." + m + s + ".f16x2.f32", Conversion::PairTo32,
                       [=](auto *a, auto *b, auto *d, unsigned n) {
                         f32x2ToF16x2(rd, relu, sat, a, b, d, n);
                       }});
        all.push_back({"cvt." + m + s + ".bf16x2.f32", Conversion::PairTo32,
                       [=](auto *a, auto *b, auto *d, unsigned n) {
                         f32x2ToBf16x2(rd, relu, sat, a, b, d, n);
                       }});
      }
      all.push_back({"cvt." + m + r + ".tf32.f32", Conversion::WordTo32,
                     [=](auto *a, auto *, auto *d, unsigned n) {
                       for (unsigned i = 0; i < n; ++i)
                         d[i] = f32ToTf32(a[i], rd, relu);
                     }});
    }
  }
  for (bool sat : {false, true})
    all.push_back(
        {std::string("cvt.rna") + (sat ? ".satfinite" : "") + ".tf32.f32",
         Conversion::WordTo32, [=](auto *a, auto *, auto *d, unsigned n) {
           for (unsigned i = 0; i < n; ++i)
             d[i] = f32ToTf32(a[i], Round::Rna, false, sat);
         }});
  for (auto [round, mode] :
       {std::pair(Round::Rn, "rn"), std::pair(Round::Rz, "rz"),
        std::pair(Round::Rp, "rp"), std::pair(Round::Rm, "rm")}) {
    Round rd = round;
    std::string m = mode;
    all.push_back({"cvt." + m + ".f16.f32", Conversion::WordToHalf,
                   [=](auto *a, auto *, auto *d, unsigned n) {
                     for (unsigned i = 0; i < n; ++i)
                       d[i] = f32ToF16(a[i], rd);
                   }});
    all.push_back({"cvt." + m + ".bf16.f32", Conversion::WordToHalf,
                   [=](auto *a, auto *, auto *d, unsigned n) {
                     for (unsigned i = 0; i < n; ++i)
                       d[i] = f32ToBf16(a[i], rd);
                   }});
  }
  all.push_back({"cvt.f32.f16", Conversion::HalfTo32,
                 [](auto *a, auto *, auto *d, unsigned n) {
                   for (unsigned i = 0; i < n; ++i)
                     d[i] = f16ToF32(uint16_t(a[i]));
                 }});
  all.push_back({"cvt.f32.bf16", Conversion::HalfTo32,
                 [](auto *a, auto *, auto *d, unsigned n) {
                   for (unsigned i = 0; i < n; ++i)
                     d[i] = bf16ToF32(uint16_t(a[i]));
                 }});
  return all;
}

void checkConversions(Driver &driver) {
  // Every upper half with every interesting lower half; b is a shuffle of a.
  std::vector<uint32_t> a;
  for (uint32_t high = 0; high < 0x10000; ++high)
    for (uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u,
                         0x7fffu, 0x8000u, 0x8001u, 0xf000u, 0xffffu})
      a.push_back((high << 16) | low);
  std::mt19937 engine(1);
  while (a.size() < (1u << 21))
    a.push_back(uint32_t(engine()));
  std::vector<uint32_t> b = a;
  for (size_t i = b.size() - 1; i > 0; --i)
    std::swap(b[i], b[engine() % (i + 1)]);
  size_t count = a.size();
  DevicePtr da = driver.allocate(4 * count), db = driver.allocate(4 * count),
            dd = driver.allocate(4 * count);
  driver.upload(da, a.data(), 4 * count);
  driver.upload(db, b.data(), 4 * count);
  std::vector<uint32_t> found(count), expected(count);
  for (const Conversion &c : conversions()) {
    Handle function = driver.load(conversionPtx(c), "k");
    if (!function) {
      std::printf("%-52s not on this GPU\n", c.op.c_str());
      continue;
    }
    void *params[] = {&da, &db, &dd};
    driver.launch(function, unsigned(count / 256), 256, params);
    driver.download(found.data(), dd, 4 * count);
    c.model(a.data(), b.data(), expected.data(), unsigned(count));
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i)
      if (found[i] != expected[i] && wrong++ < (verbose ? 1000u : 3u) &&
          (!verbose || i % 5 == 0))
        std::printf("  %s of %08x, %08x: GPU %08x, model %08x\n", c.op.c_str(),
                    a[i], b[i], found[i], expected[i]);
    report(c.op, count, wrong);
  }
}

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

constexpr size_t spaceBytes = 1 << 16;
constexpr size_t imageBytes = 1 << 15;

struct Space : GlobalSpace {
  const uint8_t *read(uint64_t address, uint64_t size) override {
    return write(address, size);
  }
  uint8_t *write(uint64_t address, uint64_t size) override {
    if (address < base || address - base + size > spaceBytes)
      return nullptr;
    return bytes.data() + (address - base);
  }
  uint64_t base = 0;
  std::vector<uint8_t> bytes = std::vector<uint8_t>(spaceBytes);
};

/// One CTA: shared memory from `image`, one tensor copy, shared memory back.
std::string copyPtx(unsigned rank, const std::string &kind) {
  std::string coords = "c0";
  for (unsigned d = 1; d < rank; ++d)
    coords += ", c" + std::to_string(d);
  std::string dim = "." + std::to_string(rank) + "d";
  std::string copy;
  if (kind == "load")
    copy = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], bytes;\n"
           "cp.async.bulk.tensor" +
           dim +
           ".shared::cluster.global.tile.mbarrier::complete_tx::bytes "
           "[dst], [tm, {" +
           coords +
           "}], [mb];\n"
           "W: mbarrier.try_wait.parity.shared::cta.b64 q, [mb], 0;\n"
           "@!q bra W;\n";
  else
    copy = (kind == "store"
                ? "cp.async.bulk.tensor" + dim +
                      ".global.shared::cta.tile.bulk_group"
                : "cp.reduce.async.bulk.tensor" + dim + ".global.shared::cta." +
                      kind + ".tile.bulk_group") +
           " [tm, {" + coords +
           "}], [dst];\n"
           "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n";
  return std::string(header) +
         ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 image, "
         ".param .u64 coords, .param .u32 offset, .param .u32 tx) {\n"
         ".reg .pred p, q; .reg .b32 t, i, s, v, mb, dst, bytes, c0, c1, c2, "
         "c3, c4; .reg .b64 g, o, tm, cs;\n"
         ".shared .align 1024 .b8 sm[32768]; .shared .align 8 .b64 bar;\n"
         "ld.param.u64 g, [image]; mov.u32 t, %tid.x; mov.u32 s, sm;\n"
         "mul.lo.u32 i, t, 4;\n"
         "F: cvt.u64.u32 o, i; add.u64 o, o, g; ld.global.b32 v, [o];\n"
         "add.u32 dst, s, i; st.shared.b32 [dst], v; add.u32 i, i, 1024;\n"
         "setp.lt.u32 p, i, 32768; @p bra F;\n"
         "fence.proxy.async.shared::cta; mov.u32 mb, bar; bar.sync 0;\n"
         "setp.ne.u32 p, t, 0; @p bra E;\n"
         "mbarrier.init.shared::cta.b64 [mb], 1; "
         "fence.mbarrier_init.release.cluster; fence.proxy.async;\n"
         "ld.param.u64 cs, [coords]; mov.b64 tm, map; cvta.param.u64 tm, tm;\n"
         "ld.param.u32 dst, [offset]; add.u32 dst, dst, s; "
         "ld.param.u32 bytes, [tx];\n"
         "ld.global.b32 c0, [cs]; ld.global.b32 c1, [cs+4]; "
         "ld.global.b32 c2, [cs+8]; ld.global.b32 c3, [cs+12]; "
         "ld.global.b32 c4, [cs+16];\n" +
         copy +
         "E: bar.sync 0; mul.lo.u32 i, t, 4;\n"
         "B: add.u32 dst, s, i; ld.shared.b32 v, [dst]; cvt.u64.u32 o, i; "
         "add.u64 o, o, g; st.global.b32 [o], v; add.u32 i, i, 1024;\n"
         "setp.lt.u32 p, i, 32768; @p bra B; ret;\n}\n";
}

class CopyCheck {
public:
  explicit CopyCheck(Driver &driver) : driver(driver) {
    dSpace = driver.allocate(spaceBytes);
    dImage = driver.allocate(imageBytes);
    dCoords = driver.allocate(20);
    space.base = dSpace;
  }

  /// The driver's verdict; \p encoded is 64-byte aligned.
  int encode(const TensorMap &map, void *encoded) {
    uint64_t dims[5], strides[4];
    uint32_t box[5], elementStrides[5];
    for (unsigned d = 0; d < 5; ++d) {
      dims[d] = map.dims[d];
      box[d] = map.box[d];
      elementStrides[d] = map.elementStrides[d];
      if (d < 4)
        strides[d] = map.strides[d];
    }
    return driver
        .call<void *, int, unsigned, void *, const uint64_t *, const uint64_t *,
              const uint32_t *, const uint32_t *, int, int, int, int>(
            "cuTensorMapEncodeTiled", encoded, int(map.type), map.rank,
            reinterpret_cast<void *>(map.address), dims, strides, box,
            elementStrides, int(map.interleave), int(map.swizzle),
            int(map.l2Promotion), int(map.fill));
  }

  /// Runs one copy on both; returns whether every byte agrees.
  bool run(const TensorMap &map, const int32_t *coords, uint32_t offset,
           const std::string &kind) {
    alignas(64) uint8_t encoded[128];
    driver.check("cuTensorMapEncodeTiled", encode(map, encoded));
    Handle &function = functions[map.rank - 1][kind == "load"    ? 0
                                               : kind == "store" ? 1
                                                                 : 2];
    if (!function)
      function = driver.load(copyPtx(map.rank, kind), "k");
    if (!function) {
      std::puts("the copy kernel was refused");
      std::exit(1);
    }
    std::vector<uint8_t> image(imageBytes);
    for (uint8_t &byte : image)
      byte = uint8_t(engine());
    for (uint8_t &byte : space.bytes)
      byte = uint8_t(engine());
    if (kind == "add")
      tame(map.type, image), tame(map.type, space.bytes);
    driver.upload(dSpace, space.bytes.data(), spaceBytes);
    driver.upload(dImage, image.data(), imageBytes);
    int32_t all[5] = {};
    std::memcpy(all, coords, 4 * map.rank);
    driver.upload(dCoords, all, 20);
    uint32_t tx = map.transactionBytes();
    void *params[] = {encoded, &dImage, &dCoords, &offset, &tx};
    driver.launch(function, 1, 256, params);

    SharedView view{image.data(), 0, uint32_t(imageBytes)};
    IssueList issues;
    bool good =
        kind == "load"    ? tmaLoad(map, coords, offset, view, space, issues)
        : kind == "store" ? tmaStore(map, coords, offset, view, space, issues)
                          : tmaReduce(map, coords, offset, TmaReduce::Add, view,
                                      space, issues);
    if (!good) {
      std::printf("  model refused: %s\n", issues.back().message.c_str());
      return false;
    }
    std::vector<uint8_t> gpuImage(imageBytes), gpuSpace(spaceBytes);
    driver.download(gpuImage.data(), dImage, imageBytes);
    driver.download(gpuSpace.data(), dSpace, spaceBytes);
    bool equal = gpuImage == image && gpuSpace == space.bytes;
    if (!equal && verbose) {
      describe(map);
      std::printf(" at %d %d offset %x:", all[0], all[1], offset);
      unsigned shown = 0;
      for (size_t i = 0; i < spaceBytes; ++i)
        if (gpuSpace[i] != space.bytes[i] && shown++ < 20)
          std::printf(" %zd:%02x/%02x", ssize_t(i - (map.address - dSpace)),
                      gpuSpace[i], space.bytes[i]);
      std::printf(" total %u\n", shown);
    }
    return equal;
  }

  /// A random map that stays inside the space wherever its box lies.
  bool randomMap(TensorMap &map, int32_t *coords, uint32_t &offset,
                 const std::string &kind) {
    const TmaType loads[] = {TmaType::U8,  TmaType::U16, TmaType::BF16,
                             TmaType::F32, TmaType::F64, TmaType::S32};
    const TmaType sums[] = {TmaType::U32, TmaType::S32,  TmaType::U64,
                            TmaType::F16, TmaType::BF16, TmaType::F32};
    map = TensorMap();
    map.type = kind == "add" ? sums[below(6)] : loads[below(6)];
    unsigned es = tmaElementBytes(map.type);
    map.rank = 1 + below(5);
    map.address = dSpace + 16 * below(64);
    map.swizzle = TmaSwizzle(below(4));
    map.l2Promotion = uint8_t(below(4));
    bool isFloat = map.type == TmaType::BF16 || map.type == TmaType::F32;
    if (isFloat && kind == "load" && below(3) == 0)
      map.fill = TmaFill::NaN;
    unsigned span = map.swizzle == TmaSwizzle::B32   ? 32
                    : map.swizzle == TmaSwizzle::B64 ? 64
                                                     : 128;
    map.box[0] = 16 / es * (1 + below(span / 16));
    uint64_t extent = map.address - dSpace;
    for (unsigned d = 0; d < map.rank; ++d) {
      map.dims[d] = 1 + below(d == 0 ? 200 / es : 9);
      if (d > 0) {
        map.box[d] = 1 + below(5);
        // Stores and sums must not overlap themselves.
        map.strides[d - 1] =
            kind == "load"
                ? 16 * below(40)
                : (d == 1 ? 256 : map.strides[d - 2] * (map.dims[d - 1] + 1));
        map.elementStrides[d] = kind == "load" ? 1 + below(3) : 1;
      }
      extent += d > 0 ? map.strides[d - 1] * map.dims[d] : map.dims[d] * es;
      int32_t lowest = kind == "load" ? -4 : 0;
      coords[d] = int32_t(below(12)) + lowest;
    }
    coords[0] =
        int32_t(16 / es) * (int32_t(below(8)) - (kind == "load" ? 3 : 0));
    offset = 128 * below(9);
    return extent < spaceBytes && offset + map.imageBytes() <= imageBytes;
  }

  unsigned below(unsigned n) { return unsigned(engine() % n); }

  Driver &driver;
  std::mt19937 engine{7};
  Space space;
  DevicePtr dSpace, dImage, dCoords;

private:
  /// Random bits of a float type would be NaN too often to say much.
  void tame(TmaType type, std::vector<uint8_t> &bytes) {
    unsigned es = tmaElementBytes(type);
    if (type == TmaType::F16 || type == TmaType::BF16 || type == TmaType::F32)
      for (size_t i = es - 1; i < bytes.size(); i += es)
        bytes[i] = uint8_t((bytes[i] & 0x83) | (below(4) ? 0x3c : 0));
  }

  Handle functions[5][3] = {};
};

void checkCopies(Driver &driver) {
  CopyCheck check(driver);
  for (const std::string kind : {"load", "store", "add"}) {
    size_t checked = 0, wrong = 0;
    while (checked < 1500) {
      TensorMap map;
      int32_t coords[5];
      uint32_t offset;
      if (!check.randomMap(map, coords, offset, kind))
        continue;
      if (!check.run(map, coords, offset, kind) && wrong++ < 3)
        std::printf(
            "  %s: type %d rank %u swizzle %d box0 %u dim0 %llu at %d\n",
            kind.c_str(), int(map.type), map.rank, int(map.swizzle), map.box[0],
            (unsigned long long)map.dims[0], coords[0]);
      ++checked;
    }
    report("tensor " + kind, checked, wrong);
  }

  // The document-clipped maps of docs/architecture.md, loads and stores.
  for (const std::string kind : {"load", "store"}) {
    size_t checked = 0, wrong = 0;
    for (unsigned i = 0; i < 600; ++i) {
      unsigned es = 1 + check.below(2);
      unsigned cols = 64 << check.below(2), heads = 1 + check.below(3);
      uint64_t row = uint64_t(cols) * heads * es;
      unsigned span = std::min(128u, cols * es);
      int64_t rows = int64_t(spaceBytes / row);
      TensorMap map;
      map.type = es == 1 ? TmaType::U8 : TmaType::BF16;
      map.rank = 5;
      map.address = check.dSpace;
      map.dims = {cols, heads, 1ull << 30, 1ull << 31, 1ull << 31};
      map.strides = {uint64_t(cols) * es, row, row, (1ull << 34) - row};
      map.box = {span / es, 1, 1 + check.below(128), 1, 1};
      map.swizzle = span == 128 ? TmaSwizzle::B128 : TmaSwizzle::B64;
      int64_t begin = check.below(unsigned(rows));
      int64_t limit = std::min<int64_t>(rows, begin - 3 + check.below(140));
      int64_t n = std::min<int64_t>(limit - begin, 256);
      int32_t coords[5] = {0, int32_t(check.below(heads)),
                           int32_t((1 << 30) - n), int32_t(begin + n), 1 << 30};
      if (begin + n < 0)
        continue;
      ++checked;
      if (!check.run(map, coords, 1024, kind) && wrong++ < 3)
        std::printf("  rows %lld from %lld limit %lld\n", (long long)rows,
                    (long long)begin, (long long)limit);
    }
    report("document-clipped tensor " + kind, checked, wrong);
  }
}

/// Random arguments, mostly legal: the driver and the model must agree.
void checkEncoder(Driver &driver) {
  CopyCheck check(driver);
  size_t checked = 0, wrong = 0, refused = 0;
  while (checked < 100000) {
    TensorMap map;
    int32_t coords[5];
    uint32_t offset;
    check.randomMap(map, coords, offset, "load");
    map.fill = TmaFill(check.below(2));
    for (unsigned change = check.below(3); change > 0; --change)
      switch (check.below(10)) {
      case 0:
        map.address += check.below(32);
        break;
      case 1:
        map.dims[check.below(5)] =
            check.below(2) ? 0 : (1ull << 32) - 1 + check.below(3);
        break;
      case 2:
        map.strides[check.below(4)] =
            check.below(2) ? check.below(100)
                           : (1ull << 40) - 32 + 16 * check.below(4);
        break;
      case 3:
        map.box[check.below(5)] = 250 + check.below(10);
        break;
      case 4:
        map.box[check.below(5)] = check.below(3);
        break;
      case 5:
        map.elementStrides[check.below(5)] = check.below(11);
        break;
      case 6:
        map.type = TmaType(check.below(13));
        break;
      case 7:
        map.rank = check.below(7);
        break;
      case 8:
        map.box[0] = 1 + check.below(256);
        break;
      case 9: // near the limit of a box's size
        for (unsigned d = 1; d < 3; ++d)
          map.box[d] = 1 + check.below(256);
        break;
      }
    alignas(64) uint8_t encoded[128];
    if (map.rank > 5)
      continue; // the arrays have five entries
    bool accepted = check.encode(map, encoded) == 0;
    std::string error;
    bool legal = map.validate(error);
    refused += !accepted;
    if (accepted != legal && verbose) {
      describe(map);
      std::printf("\n");
    }
    if (accepted != legal && wrong++ < 12)
      std::printf("  driver %s, model: %s (type %d rank %u swizzle %d box0 %u "
                  "es %u)\n",
                  accepted ? "accepts" : "refuses",
                  legal ? "legal" : error.c_str(), int(map.type), map.rank,
                  int(map.swizzle), map.box[0], map.elementStrides[0]);
    ++checked;
  }
  std::printf("  (%zu of them refused by the driver)\n", refused);
  report("tensor map arguments", checked, wrong);
}

} // namespace

int main(int argc, char **argv) {
  verbose = argc > 1 && std::string(argv[1]) == "--verbose";
  Driver driver;
  checkConversions(driver);
  checkEncoder(driver);
  checkCopies(driver);
  return failures != 0;
}
