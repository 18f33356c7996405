//===- FoldScalesTest.cpp - Folding keeps every bit -----------------------===//
//
// Programs before and after flamia-fold-scales, run by the evaluator on data
// that stays in range, must give the same bits. Arguments with `flamia.folded`
// are filled with what they declare, from the scale arrays.
//
//===----------------------------------------------------------------------===//

#include "KernelEvaluation.h"

#include "dialects/Flamia/Folded.h"
#include "passes/Folding/Rewrite.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace flamia;
using namespace flamia::test;

namespace {

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

/// Documents of a pack, and its tiles in the scale arrays.
struct Pack {
  std::vector<int64_t> offsets;
  std::vector<int64_t> bases = numerics::scaleTileBases(offsets);
  int64_t tokens() const { return offsets.back(); }
  int64_t tiles() const { return bases.back(); }
};

/// Exponents of tokens [tokens, heads] of the payload arguments by number.
using Exponents = llvm::DenseMap<unsigned, std::vector<int>>;

/// Calls \p visit(scale tile, row in the tile, token) for all tokens.
template <typename Function>
void forEachToken(const Pack &pack, Function visit) {
  for (size_t d = 0; d + 1 < pack.offsets.size(); ++d)
    for (int64_t t = pack.offsets[d]; t < pack.offsets[d + 1]; ++t)
      visit(pack.bases[d] + (t - pack.offsets[d]) / 128,
            (t - pack.offsets[d]) % 128, t);
}

/// The value of \p exponent for a token: maxima count its block's tokens.
int valueOf(const FoldedExponent &exponent, const Exponents &exponents,
            const Pack &pack, int64_t heads, int64_t token, int64_t head) {
  int64_t sum = exponent.constant;
  int64_t begin = 0, end = 0;
  for (size_t d = 0; d + 1 < pack.offsets.size(); ++d)
    if (token >= pack.offsets[d] && token < pack.offsets[d + 1])
      begin = pack.offsets[d], end = pack.offsets[d + 1];
  for (const auto &[symbol, coefficient] : exponent.terms) {
    int64_t span = symbol.span;
    int64_t first = begin + (token - begin) / span * span;
    int largest = -1000;
    for (int64_t t = first; t < std::min(end, first + span); ++t)
      largest = std::max(
          largest, exponents.find(symbol.argument)->second[t * heads + head]);
    sum += coefficient * largest;
  }
  return int(sum);
}

/// What the scale of a 32 x 32 block of V has on top of its tokens' exponent,
/// so that blocks differ along channels too.
int blockExponent(int64_t row, int64_t channel) {
  return int((row / 32 + channel / 32) % 2);
}

struct Fill {
  KernelOp kernel;
  const Pack &pack;
  Arguments &arguments;
  Exponents exponents;

  int64_t headsOf(unsigned index) {
    return arguments[kernel.getArgName(index)].buffer.shape[1];
  }

  bool isBlocked(unsigned payload) {
    return kernel.getArgName(payload) == "v_data";
  }

  /// Scale bytes of a payload, along columns.
  void scales(const char *name, unsigned payload, int64_t dim) {
    int64_t heads = headsOf(payload);
    std::vector<uint8_t> bytes(size_t(pack.tiles() * heads * 512), 127);
    forEachToken(pack, [&](int64_t tile, int64_t row, int64_t token) {
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t c = 0; c < dim; ++c) {
          int e = exponents[payload][token * heads + h] +
                  (isBlocked(payload) ? blockExponent(row, c) : 0);
          int64_t place = numerics::off128x4(row, c / 32);
          bytes[size_t((tile * heads + h) * 512 + place)] = uint8_t(e + 127);
        }
    });
    arguments[name] = tensor({pack.tiles(), heads, 512}, bytes);
  }

  /// All arguments with `flamia.folded`, as they are declared.
  void folded(int64_t dim) {
    for (unsigned i = 0; i < kernel.getArgNames().size(); ++i) {
      std::optional<FoldedArgument> declared = getFoldedArgument(kernel, i);
      if (!declared)
        continue;
      int64_t heads = 1;
      if (declared->of)
        heads = headsOf(declared->of.getArgNumber());
      for (const auto &term : declared->exponent.terms)
        heads = headsOf(term.first.argument);
      fillOne(kernel.getArgName(i), *declared, heads, dim);
    }
  }

private:
  void fillOne(llvm::StringRef name, const FoldedArgument &declared,
               int64_t heads, int64_t dim) {
    using Form = FoldedArgument::Form;
    bool isBytes = declared.form == Form::ScaleBytes;
    bool hasBlocks = false;
    for (const auto &term : declared.exponent.terms)
      hasBlocks |= isBlocked(term.first.argument);
    int64_t width = isBytes ? 512 : declared.form == Form::Scalar ? 1 : 128;
    std::vector<uint8_t> bytes(size_t(pack.tiles() * heads * 512), 127);
    std::vector<float> numbers(size_t(pack.tiles() * heads * width));
    std::vector<float> held;
    if (declared.of)
      held = valuesOf<float>(
          arguments,
          kernel.getArgName(declared.of.getArgNumber()).str().c_str());
    forEachToken(pack, [&](int64_t tile, int64_t row, int64_t token) {
      for (int64_t h = 0; h < heads; ++h) {
        int e = valueOf(declared.exponent, exponents, pack, heads, token, h);
        size_t atom = size_t(tile * heads + h);
        float value = held.empty() ? 0 : held[size_t(token * heads + h)];
        switch (declared.form) {
        case Form::ScaleBytes:
          for (int64_t c = 0; c < dim; ++c) {
            bool rows = declared.along == Axis::Rows;
            bytes[atom * 512 + (rows ? numerics::off128x4(c, row / 32)
                                     : numerics::off128x4(row, c / 32))] =
                uint8_t(e + 127 + (hasBlocks ? blockExponent(row, c) : 0));
          }
          break;
        case Form::Scalar:
          numbers[atom] = float(e);
          break;
        case Form::Factor:
          numbers[atom * 128 + row] = std::ldexp(1.0f, e);
          break;
        case Form::Vector:
          numbers[atom * 128 + row] = std::ldexp(value, e);
          break;
        case Form::Bias:
          numbers[atom * 128 + row] =
              (declared.negate ? -value : value) + float(declared.plus) + e;
          break;
        }
      }
    });
    if (isBytes)
      arguments[name] = tensor({pack.tiles(), heads, 512}, bytes);
    else if (declared.form == Form::Scalar)
      arguments[name] = tensor({pack.tiles(), heads}, numbers);
    else
      arguments[name] = tensor({pack.tiles(), heads, 128}, numbers);
  }
};

/// Payload bytes: few elements are not 0, and those are +-1, +-2.
std::vector<uint8_t> sparsePayload(std::mt19937 &random, int64_t count,
                                   unsigned oneIn) {
  std::vector<uint8_t> payload(size_t(count), 0);
  for (uint8_t &byte : payload)
    if (random() % oneIn == 0)
      byte = uint8_t((random() % 2 ? 0x80 : 0) | (random() % 2 ? 0x38 : 0x40));
  return payload;
}

uint16_t bf16Of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return uint16_t(bits >> 16);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

class Programs {
public:
  explicit Programs(const std::string &file) : context(makeRegistry()) {
    module = mlir::parseSourceFile<mlir::ModuleOp>(
        std::string(FLAMIA_SOURCE_DIR) + "/" + file, &context);
    if (!module)
      endTests("cannot read " + file + " of the source folder", __FILE__,
               __LINE__);
    // Remarks are part of what some programs are for.
    context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Remark)
        return mlir::failure();
      ++remarks;
      return mlir::success();
    });
  }

  bool run(llvm::function_ref<void(mlir::PassManager &)> build) {
    mlir::PassManager passes(&context);
    build(passes);
    return module && succeeded(passes.run(*module));
  }
  KernelOp get(llvm::StringRef name) {
    return module ? module->lookupSymbol<KernelOp>(name) : KernelOp();
  }
  unsigned remarks = 0;

private:
  static mlir::DialectRegistry makeRegistry() {
    mlir::DialectRegistry registry;
    registerFlamiaDialects(registry);
    return registry;
  }
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

//===----------------------------------------------------------------------===//
// The kernels of fold-scales.mlir
//===----------------------------------------------------------------------===//

/// Arguments by type: 256 rows, one head.
Arguments smallArguments(KernelOp kernel, unsigned seed) {
  std::mt19937 random(seed);
  Pack pack{{0, 256}};
  Arguments arguments;
  Fill fill{kernel, pack, arguments, Exponents()};
  auto attributes = kernel.getArgAttrsAttr();
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    auto memref = llvm::cast<mlir::MemRefType>(type);
    llvm::StringRef name = kernel.getArgName(i);
    if (attributes && llvm::cast<mlir::DictionaryAttr>(attributes[i])
                          .contains("flamia.folded"))
      continue;
    std::vector<int64_t> shape = {256, 1, 128};
    if (memref.getRank() == 2)
      shape = {256, memref.getDimSize(1) == 128 ? 128 : 1};
    int64_t count = shape[0] * shape[1] * (shape.size() == 3 ? 128 : 1);
    if (memref.getElementType().isF32()) {
      std::vector<float> values(static_cast<size_t>(count));
      // Quarters; vectors lie between, so that differences are not tiny.
      for (float &value : values)
        value = float(int(random() % 9) - 4) / 4 +
                (shape[1] == 1 && name != "m" ? 0.0625f : 0.0f);
      if (name == "m")
        for (float &value : values)
          value = float(int(random() % 5) - 2);
      arguments[name] = tensor(shape, values);
    } else if (memref.getElementType().isBF16()) {
      std::vector<uint16_t> values(static_cast<size_t>(count));
      for (uint16_t &value : values)
        value = bf16Of(float(int(random() % 5) - 2));
      arguments[name] = tensor(shape, values);
    } else if (memref.getDimSize(memref.getRank() - 1) != 512) {
      arguments[name] = tensor(shape, sparsePayload(random, count, 24));
      std::vector<int> exponents(static_cast<size_t>(shape[0]));
      for (int &exponent : exponents)
        exponent = int(random() % 3) - 1;
      fill.exponents[unsigned(i)] = exponents;
      // Blocks of 32 x 32 have one scale.
      if (name == "v_data")
        for (size_t t = 0; t < exponents.size(); ++t)
          fill.exponents[unsigned(i)][t] = exponents[t / 32 * 32];
    }
  }
  for (const auto &entry : fill.exponents) {
    std::string payload = kernel.getArgName(entry.first).str();
    for (std::string name :
         {payload + "_scale",
          payload.substr(0, payload.rfind("_data")) + "_scale",
          std::string("s")})
      if (kernel.getArgNamed(name))
        fill.scales(name.c_str(), entry.first, 128);
  }
  fill.folded(128);
  return arguments;
}

class SmallPrograms : public testing::TestWithParam<const char *> {};

TEST_P(SmallPrograms, HaveTheSameBitsAfterFolding) {
  Programs before("test/Passes/fold-scales.mlir"),
      after("test/Passes/fold-scales.mlir");
  ASSERT_TRUE(before.run([](mlir::PassManager &) {}));
  ASSERT_TRUE(after.run([](mlir::PassManager &passes) {
    passes.addPass(createFoldScalesPass());
  }));
  KernelOp logical = before.get(GetParam()), folded = after.get(GetParam());
  ASSERT_TRUE(logical && folded);
  for (unsigned seed = 0; seed < 3; ++seed) {
    Arguments a = smallArguments(logical, seed), b = a;
    for (auto [kernel, arguments] :
         {std::pair(logical, &a), std::pair(folded, &b)}) {
      llvm::Error error = evaluate(kernel, *arguments);
      ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
    }
    for (const auto &entry : a)
      EXPECT_EQ(entry.second.buffer.bytes, b[entry.first()].buffer.bytes)
          << entry.first().str() << " seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, SmallPrograms,
                         testing::Values("factor", "through_dot", "into_bias",
                                         "several_users", "through_rounding",
                                         "relative_where_past"),
                         [](const auto &info) { return info.param; });

//===----------------------------------------------------------------------===//
// The backward's kernels
//===----------------------------------------------------------------------===//

struct Magnitudes {
  int q = 0, k = 0, v = 0, dO = 0;
};

/// A problem in which nothing is rounded before it is quantized, and no block
/// has elements 2^13 apart.
class Problem {
public:
  Problem(KernelOp kernel, int64_t dim, const Magnitudes &at)
      : dim(dim), random(7), fill{kernel, pack, arguments, Exponents()} {
    payload("q_data", "q_scale", 2, at.q, 8);
    payload("k_data", "k_scale", 1, at.k, 8);
    payload("do_data", "do_scale", 2, at.dO, 40);
    payload("v_data", "v_scale", 1, at.v, 2);
    // As Q and K have few bits, so have the scores; 2^-7 of them are in the
    // single digits, and the weights within 2^5.
    arguments["softmax_scale"] = number(scaleFor(std::ldexp(1.0f, -5)));
    perQuery("m", [&](int64_t) { return float(int(random() % 3)); });
    perQuery("r",
             [&](int64_t) { return std::ldexp(1.0f, int(random() % 3) - 1); });
    const std::vector<int> &eO = fill.exponents[number("do_data")];
    perQuery("d_past", [&](int64_t row) {
      return std::ldexp(float(int(random() % 5) - 2) + 0.5f,
                        eO[size_t(row)] + at.v);
    });
    perQuery("d_diagonal",
             [&](int64_t) { return float(int(random() % 5) - 2) + 0.125f; });
    bf16("do", 2, 40);
    bf16("v_bf16", 1, 2);
    arguments["work"] = workListOf(pack.offsets);
    for (const char *name : {"dq", "dk", "dv"})
      if (kernel.getArgNamed(name))
        arguments[name] =
            filled({pack.tokens(), name[1] == 'q' ? 2 : 1, dim}, 2);
    fill.folded(dim);
    keepOnlyArguments(kernel);
  }

  Arguments arguments;

private:
  unsigned number(const char *name) {
    return fill.kernel.getArgNamed(name).getArgNumber();
  }
  static Argument number(double value) { return flamia::test::number(value); }

  /// fp32 softmax scale with which c = fp32(scale * log2 e) is \p c.
  static float scaleFor(float c) {
    constexpr float log2e = 1.44269504f;
    float scale = c / log2e;
    for (int i = 0; i < 8 && scale * log2e != c; ++i)
      scale = std::nextafter(scale, scale * log2e < c ? 1.0f : 0.0f);
    EXPECT_EQ(scale * log2e, c);
    return scale;
  }

  void payload(const char *name, const char *scale, int64_t heads, int base,
               unsigned oneIn) {
    if (!fill.kernel.getArgNamed(name))
      return;
    arguments[name] =
        tensor({pack.tokens(), heads, dim},
               sparsePayload(random, pack.tokens() * heads * dim, oneIn));
    std::vector<int> exponents(size_t(pack.tokens() * heads));
    bool isBlock = name[0] == 'v';
    forEachToken(pack, [&](int64_t, int64_t row, int64_t token) {
      for (int64_t h = 0; h < heads; ++h) {
        int &exponent = exponents[size_t(token * heads + h)];
        exponent = isBlock && row % 32 != 0
                       ? exponents[size_t((token - 1) * heads + h)]
                       : base + int(random() % (isBlock ? 2 : 3));
      }
    });
    fill.exponents[number(name)] = exponents;
    fill.scales(scale, number(name), dim);
  }
  template <typename Function>
  void perQuery(const char *name, Function function) {
    std::vector<float> values(size_t(pack.tokens() * 2));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = function(int64_t(i));
    arguments[name] = tensor({pack.tokens(), 2}, values);
  }
  void bf16(const char *name, int64_t heads, unsigned oneIn) {
    std::vector<uint16_t> values(size_t(pack.tokens() * heads * dim));
    for (uint16_t &value : values)
      value = random() % oneIn ? 0 : bf16Of(random() % 2 ? 1.0f : -1.0f);
    arguments[name] = tensor({pack.tokens(), heads, dim}, values);
  }
  void keepOnlyArguments(KernelOp kernel) {
    Arguments own;
    for (mlir::Attribute name : kernel.getArgNames()) {
      llvm::StringRef text = llvm::cast<mlir::StringAttr>(name).getValue();
      own[text] = arguments[text];
    }
    arguments = own;
  }

  Pack pack{{0, 300, 377}};
  int64_t dim;
  std::mt19937 random;
  Fill fill;
};

struct Case {
  const char *kernel;
  int64_t dim;
  bool causal;
  Magnitudes at;
};

class BackwardFolding : public testing::TestWithParam<Case> {
public:
  static void runBefore(Programs &programs, const Case &at) {
    ASSERT_TRUE(programs.run([&](mlir::PassManager &passes) {
      passes.addPass(createSpecializePass(
          SpecializePassOptions{"head_dim=" + std::to_string(at.dim) +
                                ",causal=" + (at.causal ? "true" : "false")}));
      passes.addPass(createInsertSafeguardsPass());
      passes.addPass(createPeelPartialTilesPass());
    }));
  }
  static void evaluateIn(KernelOp kernel, Arguments &arguments) {
    llvm::Error error = evaluate(kernel, arguments);
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  }
  /// Differing elements of the outputs.
  static size_t difference(const Arguments &a, const Arguments &b) {
    size_t count = 0;
    for (const char *name : {"dq", "dk", "dv"}) {
      if (!a.count(name))
        continue;
      std::vector<uint16_t> x = valuesOf<uint16_t>(a, name);
      std::vector<uint16_t> y = valuesOf<uint16_t>(b, name);
      for (size_t i = 0; i < x.size(); ++i)
        count += x[i] != y[i];
    }
    return count;
  }
};

TEST_P(BackwardFolding, KeepsEveryBit) {
  Case at = GetParam();
  std::string file = std::string("kernels/") + at.kernel + ".mlir";
  Programs before(file), after(file);
  runBefore(before, at);
  runBefore(after, at);
  KernelOp logical = before.get(at.kernel);
  ASSERT_TRUE(logical);
  // r dP - D' is rounded once in both.
  fuseScaledProducts(logical);
  ASSERT_TRUE(after.run([](mlir::PassManager &passes) {
    passes.addPass(createFoldScalesPass());
  }));
  KernelOp folded = after.get(at.kernel);
  ASSERT_TRUE(folded);
  // No product over tokens keeps token-local scales.
  folded.walk([](DotOp dot) {
    EXPECT_FALSE(isContractedTokenLocal(dot, 0));
    EXPECT_FALSE(isContractedTokenLocal(dot, 1));
  });

  Problem problem(logical, at.dim, at.at);
  Arguments a = problem.arguments, b = problem.arguments;
  evaluateIn(logical, a);
  evaluateIn(folded, b);
  EXPECT_EQ(difference(a, b), 0u);
  // The outputs hold gradients, not zeros: otherwise nothing was compared.
  EXPECT_GT(difference(a, problem.arguments), size_t(300 * at.dim));
  for (const char *name : {"dq", "dk", "dv"}) {
    if (!a.count(name))
      continue;
    std::vector<uint16_t> values = valuesOf<uint16_t>(a, name);
    size_t finite = 0;
    for (uint16_t bits : values)
      finite += (bits & 0x7FFF) != 0 && (bits & 0x7F80) != 0x7F80;
    EXPECT_GT(finite, values.size() / 2) << name;
  }
}

/// Negative control: a declaration that is off by one is refused (a remark, and
/// the product or the vector stays) or changes the result. So does an array
/// that does not hold what it declares.
TEST_P(BackwardFolding, WrongDeclarationsAreRefusedOrChangeTheResult) {
  Case at = GetParam();
  std::string file = std::string("kernels/") + at.kernel + ".mlir";
  Programs right(file);
  runBefore(right, at);
  ASSERT_TRUE(right.get(at.kernel));
  Problem problem(right.get(at.kernel), at.dim, at.at);
  auto fold = [](mlir::PassManager &passes) {
    passes.addPass(createFoldScalesPass());
  };
  ASSERT_TRUE(right.run(fold));
  KernelOp kernel = right.get(at.kernel);
  Arguments expected = problem.arguments;
  evaluateIn(kernel, expected);

  unsigned refused = 0, changed = 0;
  for (unsigned i = 0; i < kernel.getArgNames().size(); ++i) {
    std::optional<FoldedArgument> declared = getFoldedArgument(kernel, i);
    if (!declared || kernel.getBody().getArgument(i).use_empty())
      continue;
    std::string name = kernel.getArgName(i).str();
    Programs wrong(file);
    runBefore(wrong, at);
    KernelOp lying = wrong.get(at.kernel);
    auto old = lying.getArgAttrOfType<mlir::DictionaryAttr>(i, "flamia.folded");
    mlir::NamedAttrList entries(old);
    mlir::Builder builder(lying.getContext());
    entries.set("exponent",
                builder.getStringAttr((declared->exponent + 1).str(lying)));
    lying.setArgAttr(i, "flamia.folded",
                     entries.getDictionary(lying.getContext()));
    ASSERT_TRUE(wrong.run(fold));
    lying = wrong.get(at.kernel);
    bool isRefused = wrong.remarks > right.remarks;
    Arguments actual = problem.arguments;
    evaluateIn(lying, actual);
    bool isChanged = difference(expected, actual) > 0;
    // What is refused keeps its value; its argument is not read for it.
    EXPECT_TRUE(isRefused || isChanged) << name;
    refused += isRefused;
    changed += isChanged;

    // Every element of the array off by a factor of 2.
    actual = problem.arguments;
    std::vector<uint8_t> &bytes = actual[name].buffer.bytes;
    bool isFactor = declared->form == FoldedArgument::Form::Factor ||
                    declared->form == FoldedArgument::Form::Vector;
    if (declared->form == FoldedArgument::Form::ScaleBytes) {
      for (uint8_t &byte : bytes)
        ++byte;
    } else {
      std::vector<float> numbers = valuesOf<float>(actual, name.c_str());
      for (float &number : numbers)
        number = isFactor ? number * 2 : number + 1;
      std::memcpy(bytes.data(), numbers.data(), bytes.size());
    }
    evaluateIn(kernel, actual);
    EXPECT_GT(difference(expected, actual), 0u) << name;
  }
  EXPECT_GT(refused + changed, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, BackwardFolding,
    testing::Values(Case{"attention_bwd_dq", 64, false, {}},
                    Case{"attention_bwd_dq", 128, true, {}},
                    Case{"attention_bwd_dkdv", 64, false, {}},
                    Case{"attention_bwd_dkdv", 128, true, {}},
                    Case{"attention_bwd_dq", 64, true, {60, -60, 40, -40}},
                    Case{"attention_bwd_dkdv", 64, true, {60, -60, 40, -40}},
                    Case{"attention_bwd_dkdv", 64, false, {-50, 50, -30, 60}}));

} // namespace
