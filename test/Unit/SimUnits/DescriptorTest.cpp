//===- DescriptorTest.cpp - Descriptors: what is accepted and refused -----===//

#include "flamia/Sim/Units/Descriptor.h"
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

using namespace flamia::sim;

namespace {

bool decode(uint32_t bits, MmaKind kind, ScaleVec vec, std::string &message,
            unsigned ctaGroup = 1, InstrDescriptor *out = nullptr,
            MmaArch arch = MmaArch::SM100a) {
  InstrDescriptor desc;
  IssueList issues;
  bool good =
      decodeInstrDescriptor(bits, kind, vec, ctaGroup, desc, issues, arch);
  message = issues.empty() ? "" : issues.back().message;
  EXPECT_EQ(good, issues.empty());
  if (out)
    *out = desc;
  return good;
}

// DSC-1: legal N of the block-scaled 8-bit kind.
TEST(Descriptor, DSC1LegalN) {
  const unsigned all[] = {0, 4, 8, 12, 16, 24, 128, 192, 256, 264};
  const std::set<unsigned> one = {8, 16, 24, 128, 192, 256};
  const std::set<unsigned> two = {16, 128, 192, 256};
  for (unsigned n : all) {
    IssueList issues;
    EXPECT_EQ(checkMmaShape(MmaKind::MXF8F6F4, 1, 128, n, issues),
              one.count(n) == 1)
        << n;
    EXPECT_EQ(checkMmaShape(MmaKind::MXF8F6F4, 2, 256, n, issues),
              two.count(n) == 1)
        << n;
    // The field holds N / 8, so 4 and 12 cannot be written at all.
    if (n % 8 == 0) {
      std::string message;
      EXPECT_EQ(decode(0x08800000 | ((n / 8) << 17), MmaKind::MXF8F6F4,
                       ScaleVec::X1, message),
                one.count(n) == 1)
          << n << message;
      EXPECT_EQ(decode(0x10800000 | ((n / 8) << 17), MmaKind::MXF8F6F4,
                       ScaleVec::X1, message, 2),
                two.count(n) == 1)
          << n << message;
    }
  }
}

// The sheet's ready values.
TEST(Descriptor, ReadyValues) {
  std::string message;
  InstrDescriptor desc;
  ASSERT_TRUE(
      decode(0x08200490, MmaKind::F16, ScaleVec::None, message, 1, &desc));
  EXPECT_EQ(desc.aType, OperandType::BF16);
  EXPECT_EQ(desc.m, 128u);
  EXPECT_EQ(desc.n, 128u);
  EXPECT_EQ(desc.k, 16u);
  ASSERT_TRUE(
      decode(0x08110490, MmaKind::F16, ScaleVec::None, message, 1, &desc));
  EXPECT_EQ(desc.n, 64u);
  EXPECT_TRUE(desc.bMnMajor);
  EXPECT_FALSE(desc.aMnMajor);
  ASSERT_TRUE(decode(0x08200010, MmaKind::F8F6F4, ScaleVec::None, message));
  ASSERT_TRUE(decode(0x08A00000 + 2 * 0x20000010, MmaKind::MXF8F6F4,
                     ScaleVec::None, message, 1, &desc));
  EXPECT_EQ(desc.sfaId, 2u);
  EXPECT_EQ(desc.sfbId, 2u);
  EXPECT_EQ(desc.scaleVec, ScaleVec::X1);
  ASSERT_TRUE(
      decode(0x08200480, MmaKind::MXF4NVF4, ScaleVec::X4, message, 1, &desc));
  EXPECT_EQ(desc.scaleType, ScaleType::UE4M3);
  EXPECT_EQ(desc.k, 64u);
  ASSERT_TRUE(
      decode(0x08A00480, MmaKind::MXF4, ScaleVec::X2, message, 1, &desc));
  EXPECT_EQ(desc.scaleType, ScaleType::UE8M0);
  ASSERT_TRUE(
      decode(0x10A00000, MmaKind::MXF8F6F4, ScaleVec::X1, message, 2, &desc));
  EXPECT_EQ(desc.m, 256u);
}

TEST(Descriptor, InstructionRejections) {
  struct {
    uint32_t bits;
    MmaKind kind;
    ScaleVec vec;
    const char *text;
  } cases[] = {
      {0x08200491, MmaKind::F16, ScaleVec::None, "bits 0-1 to be 0, but got 1"},
      {0x08200494, MmaKind::F16, ScaleVec::None, "sparsity"},
      {0x08200498, MmaKind::F16, ScaleVec::None, "integer saturate"},
      {0x082004d0, MmaKind::F16, ScaleVec::None, "reserved bits 6-6"},
      {0x08A00490, MmaKind::F16, ScaleVec::None, "reserved bits 23-23"},
      {0x28200490, MmaKind::F16, ScaleVec::None, "reserved bits 29-29"},
      {0x48200490, MmaKind::F16, ScaleVec::None, "B reuse shift"},
      {0x08200480, MmaKind::F16, ScaleVec::None,
       "the D type (bits 4-5) to be 1 (f32), but got 0"},
      {0x082004a0, MmaKind::F16, ScaleVec::None, "the D type"},
      {0x08200090, MmaKind::F16, ScaleVec::None, "to be the A type"},
      {0x08200510, MmaKind::F16, ScaleVec::None,
       "the A type (bits 7-9) to be 0 (f16) or 1 (bf16), but got 2"},
      {0x08200010, MmaKind::TF32, ScaleVec::None, "2 (tf32)"},
      {0x08200110, MmaKind::F8F6F4, ScaleVec::None, "but got 2"},
      {0x10200010, MmaKind::F8F6F4, ScaleVec::None,
       "expected M to be 64 or 128, but got 256"},
      {0x06200010, MmaKind::F8F6F4, ScaleVec::None, "but got 96"},
      {0x04A00000, MmaKind::MXF8F6F4, ScaleVec::X1, "reserved bits 24-26"},
      {0x10A00000, MmaKind::MXF8F6F4, ScaleVec::X1,
       "expected M to be 128, but got 256"},
      {0x08200000, MmaKind::MXF8F6F4, ScaleVec::X1,
       "the scale type (bit 23) to be 1 (ue8m0), but got 0"},
      {0x88A00000, MmaKind::MXF8F6F4, ScaleVec::X1, "reserved bits 31-31"},
      {0x08A00008, MmaKind::MXF8F6F4, ScaleVec::X1, "reserved bits 3-3"},
      {0x08A00000, MmaKind::MXF8F6F4, ScaleVec::X4, "scale vector size 1X"},
      {0x08A00480, MmaKind::MXF4, ScaleVec::X4, "scale vector size 2X"},
      {0x08A00480, MmaKind::MXF4NVF4, ScaleVec::None, "2X (block32) or 4X"},
      {0x08200480, MmaKind::MXF4, ScaleVec::X2, "the scale type"},
      {0x08200480, MmaKind::MXF4NVF4, ScaleVec::X2, "the scale type"},
      {0x08A00A80, MmaKind::MXF4, ScaleVec::X2, "5 is its code in mxf8f6f4"},
      {0x08A01480, MmaKind::MXF4, ScaleVec::X2, "reserved bits 12-12"},
      {0x08A10480, MmaKind::MXF4, ScaleVec::X2, "major-ness"},
      {0x28A00480, MmaKind::MXF4, ScaleVec::X2,
       "SFA_ID (bits 29-30) to be 0 or 2, but got 1"},
      {0x08A00490, MmaKind::MXF4, ScaleVec::X2,
       "SFB_ID (bits 4-5) to be 0 or 2, but got 1"},
      {0x482004a0, MmaKind::MXF4NVF4, ScaleVec::X4, "SFA_ID"},
      {0x88A00480, MmaKind::MXF4, ScaleVec::X2, "K = 96 needs sm_103a"},
      {0x08A00000, MmaKind::F8F6F4, ScaleVec::X1, "takes no scale vector"},
      // MN-major 8-bit B with N = 24.
      {0x08070010, MmaKind::F8F6F4, ScaleVec::None,
       "expected N to be a multiple of 16, but got 24"},
      {0x08202020, MmaKind::I8, ScaleVec::None, "negate"},
  };
  for (const auto &c : cases) {
    std::string message;
    EXPECT_FALSE(decode(c.bits, c.kind, c.vec, message)) << c.text;
    EXPECT_NE(message.find(c.text), std::string::npos)
        << "expected '" << c.text << "' in '" << message << "'";
  }
  std::string message;
  EXPECT_TRUE(decode(0x08200020, MmaKind::I8, ScaleVec::None, message));
  EXPECT_FALSE(decode(0x08200020, MmaKind::I8, ScaleVec::None, message, 1,
                      nullptr, MmaArch::SM103a));
}

//===----------------------------------------------------------------------===//
// Matrix descriptors
//===----------------------------------------------------------------------===//

TEST(Descriptor, MatrixFields) {
  SmemDescriptor desc;
  IssueList issues;
  ASSERT_TRUE(decodeSmemDescriptor(0x4000404000010000 | (0x8000 >> 4),
                                   "a descriptor", desc, issues));
  EXPECT_EQ(desc.start, 0x8000u);
  EXPECT_EQ(desc.sbo, 1024u);
  EXPECT_EQ(desc.lbo, 16u);
  EXPECT_EQ(desc.swizzle, Swizzle::B128);

  // Without swizzle the base offset means nothing; Triton sets it for cp.
  EXPECT_TRUE(
      decodeSmemDescriptor(0x0008400800001060, "a descriptor", desc, issues));
  EXPECT_EQ(desc.start, 0x10600u);

  struct {
    uint64_t bits;
    const char *text;
  } cases[] = {
      {0x4000404000014000, "reserved bits 14-15 to be 0, but got 1"},
      {0x4000404040010000, "reserved bits 30-31"},
      {0x4000004000010000, "the constant in bits 46-48 to be 1, but got 0"},
      {0x4002404000010000, "the base offset (bits 49-51)"},
      {0x4010404000010000, "the LBO mode (bit 52)"},
      {0x4100404000010000, "reserved bits 53-60"},
      {0x6000404000010000, "the swizzle code (bits 61-63)"},
      {0xa000404000010000, "the swizzle code"},
      {0xe000404000010000, "but got 7"},
  };
  for (const auto &c : cases) {
    issues.clear();
    EXPECT_FALSE(decodeSmemDescriptor(c.bits, "b descriptor", desc, issues));
    ASSERT_EQ(issues.size(), 1u);
    EXPECT_NE(issues[0].message.find(c.text), std::string::npos)
        << issues[0].message;
    EXPECT_EQ(issues[0].message.find("b descriptor 0x"), 0u);
  }
}

InstrDescriptor plain(OperandType type, bool mnMajor) {
  InstrDescriptor idesc;
  idesc.aType = idesc.bType = type;
  idesc.aMnMajor = idesc.bMnMajor = mnMajor;
  idesc.k = type == OperandType::TF32                               ? 8
            : type == OperandType::BF16 || type == OperandType::F16 ? 16
                                                                    : 32;
  return idesc;
}

TEST(Descriptor, OperandRejections) {
  struct {
    uint32_t start, lbo, sbo;
    Swizzle swizzle;
    OperandType type;
    bool mnMajor;
    const char *text;
  } cases[] = {
      {0x480, 16, 1024, Swizzle::B128, OperandType::E4M3, false,
       "128 bytes behind a 1024-byte boundary"},
      {0x240, 16, 512, Swizzle::B64, OperandType::E4M3, false,
       "64 bytes behind a 512-byte boundary"},
      {0x120, 16, 256, Swizzle::B32, OperandType::E4M3, false,
       "32 bytes behind a 256-byte boundary"},
      {0x470, 16, 1024, Swizzle::B128, OperandType::E4M3, false,
       "32 bytes from start address 0x470 on leave their 128-byte"},
      {0x400, 16, 512, Swizzle::B128, OperandType::E4M3, false,
       "expected SBO to be a multiple of 1024 for swizzle 128B, but got 512"},
      {0x400, 512, 1024, Swizzle::B128, OperandType::BF16, true,
       "expected LBO to be a multiple of 1024"},
      {0x400, 1024, 1024, Swizzle::B128, OperandType::E2M1, true,
       "e2m1 operands may not be MN-major"},
      {0x400, 1024, 1024, Swizzle::B128, OperandType::TF32, true,
       "MN-major tf32 may not use swizzle 128B"},
      {0x400, 1024, 1024, Swizzle::B128Atom32, OperandType::BF16, true,
       "MN-major bf16 may not use swizzle 128B with 32B atoms"},
      {0x420, 1024, 1024, Swizzle::B128, OperandType::BF16, true,
       "leave their 128-byte swizzle row"},
  };
  for (const auto &c : cases) {
    SmemDescriptor desc;
    desc.start = c.start;
    desc.lbo = c.lbo;
    desc.sbo = c.sbo;
    desc.swizzle = c.swizzle;
    SmemOperand operand;
    IssueList issues;
    EXPECT_FALSE(SmemOperand::make(desc, plain(c.type, c.mnMajor),
                                   MmaOperand::A, 128, operand, issues))
        << c.text;
    ASSERT_FALSE(issues.empty());
    EXPECT_NE(issues[0].message.find(c.text), std::string::npos)
        << issues[0].message;
  }
}

// A K advance inside the 128-byte atom keeps the swizzle: slice i of a row lies
// where slice i of the unadvanced row would.
TEST(Descriptor, AdvanceAlongKInsideTheAtom) {
  SmemDescriptor desc;
  desc.swizzle = Swizzle::B128;
  desc.sbo = 1024;
  desc.start = 0x2000;
  for (unsigned slice = 0; slice < 4; ++slice) {
    SmemDescriptor advanced = desc;
    advanced.start += 32 * slice;
    for (unsigned row = 0; row < 64; ++row)
      for (unsigned byte = 0; byte < 32; ++byte) {
        unsigned column = 32 * slice + byte;
        uint32_t expected =
            0x2000 + row * 128 + ((column / 16) ^ (row % 8)) * 16 + column % 16;
        ASSERT_EQ(kMajorAddress(advanced, row, byte), expected);
      }
  }
}

// Address functions against a model that assigns every (row, K byte) of the
// canonical tile by counting, atom by atom.
TEST(Descriptor, AddressesAgainstCountedTiles) {
  struct {
    Swizzle swizzle;
    unsigned span;
  } modes[] = {{Swizzle::B32, 32}, {Swizzle::B64, 64}, {Swizzle::B128, 128}};
  for (const auto &mode : modes) {
    SmemDescriptor desc;
    desc.swizzle = mode.swizzle;
    desc.start = 0x4000;
    desc.sbo = 8 * mode.span * 3; // room between the atoms
    desc.lbo = 8 * mode.span * 64;
    SmemOperand k, mn;
    IssueList issues;
    ASSERT_TRUE(SmemOperand::make(desc, plain(OperandType::E4M3, false),
                                  MmaOperand::A, 64, k, issues));
    ASSERT_TRUE(SmemOperand::make(desc, plain(OperandType::E4M3, true),
                                  MmaOperand::A, 256, mn, issues))
        << issues[0].message;
    for (unsigned atom = 0; atom < 8; ++atom)
      for (unsigned r = 0; r < 8; ++r) {
        uint32_t rowStart = 0x4000 + atom * desc.sbo + r * mode.span;
        // 16-byte chunks of a row, renumbered by the row's place in 128-byte
        // lines.
        for (unsigned byte = 0; byte < mode.span; ++byte) {
          unsigned chunks = mode.span / 16;
          unsigned line = r * mode.span / 128;
          uint32_t phys =
              rowStart + ((byte / 16) ^ (line % chunks)) * 16 + byte % 16;
          if (byte < 32)
            ASSERT_EQ(k.kMajorAddress(atom * 8 + r, byte), phys);
          if (atom < 4) {
            ASSERT_EQ(mn.mnMajorAddress(byte, atom * 8 + r), phys);
            ASSERT_EQ(mn.mnMajorAddress(mode.span + byte, atom * 8 + r),
                      phys + desc.lbo);
          }
        }
      }
  }
  // Without swizzle: 8 x 16-byte core matrices.
  SmemDescriptor desc;
  desc.start = 0x100;
  desc.lbo = 128;
  desc.sbo = 256;
  EXPECT_EQ(kMajorAddress(desc, 9, 17), 0x100u + 256 + 128 + 16 + 1);
  SmemOperand mn;
  IssueList issues;
  ASSERT_TRUE(SmemOperand::make(desc, plain(OperandType::E4M3, true),
                                MmaOperand::B, 32, mn, issues));
  EXPECT_EQ(mn.mnMajorAddress(17, 9), 0x100u + 256 + 128 + 16 + 1);
}

// The swizzle with 32-byte atoms, by bits: 5-6 take bits 7-8.
TEST(Descriptor, Swizzle32ByteAtoms) {
  for (uint32_t a = 0; a < 4096; a += 16) {
    uint32_t expected = (a & ~0x60u) | ((((a >> 5) ^ (a >> 7)) & 3) << 5);
    EXPECT_EQ(swizzleAddress(a, Swizzle::B128Atom32), expected);
  }
}

TEST(Descriptor, GatherReportsTheAddressOutside) {
  SmemDescriptor desc;
  desc.swizzle = Swizzle::B128;
  desc.start = 0x400;
  desc.sbo = 1024;
  SmemOperand operand;
  IssueList issues;
  ASSERT_TRUE(SmemOperand::make(desc, plain(OperandType::E4M3, false),
                                MmaOperand::A, 16, operand, issues));
  std::vector<uint8_t> shared(0xbff), rows(16 * 32);
  EXPECT_FALSE(operand.gather({shared.data(), 0, 0xbff}, rows.data(), "operand",
                              issues));
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_EQ(issues[0].kind, IssueKind::OutOfBounds);
  EXPECT_NE(issues[0].message.find("outside 0x0-0xbff"), std::string::npos);
}

} // namespace
