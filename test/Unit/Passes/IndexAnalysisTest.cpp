//===- IndexAnalysisTest.cpp - Proofs about index values ------------------===//

#include "passes/Analysis/IndexAnalysis.h"

#include "dialects/Flamia/Flamia.h"
#include "passes/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace flamia;

namespace {

/// Index values marked by `flamia.dim`-free tags: the operands of index_cast
/// ops with attribute `name`.
class IndexAnalysisTest : public testing::Test {
protected:
  void parse(const std::string &body) {
    mlir::DialectRegistry registry;
    registerFlamiaDialects(registry);
    context.appendDialectRegistry(registry);
    context.allowUnregisteredDialects();
    std::string text = "flamia.kernel @k(%work: memref<?x4xi32>, %n: index, "
                       "%m: index, %x: memref<?xf32>) parameters {} grid(1) {\n"
                       "%c0 = arith.constant 0 : index\n"
                       "%c1 = arith.constant 1 : index\n"
                       "%c2 = arith.constant 2 : index\n"
                       "%c128 = arith.constant 128 : index\n" +
                       body + "\nflamia.return\n}\n";
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    module->walk([&](mlir::Operation *op) {
      if (op->getName().getStringRef() == "test.tag")
        tags[op->getAttrOfType<mlir::StringAttr>("name").str()] =
            op->getOperand(0);
      if (auto loop = mlir::dyn_cast<mlir::scf::ForOp>(op))
        loops.push_back(loop);
    });
  }
  IndexExpr at(const char *name) { return analysis.get(tags.at(name)); }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::map<std::string, mlir::Value> tags;
  std::vector<mlir::scf::ForOp> loops;
  IndexAnalysis analysis;
};

std::string tag(const char *value, const char *name) {
  return std::string("\"test.tag\"(") + value + ") {name = \"" + name +
         "\"} : (index) -> ()\n";
}

TEST_F(IndexAnalysisTest, AddsAndCancels) {
  parse("%a = arith.addi %n, %m : index\n"
        "%b = arith.muli %a, %c128 : index\n"
        "%c = arith.muli %c128, %m : index\n"
        "%d = arith.subi %b, %c : index\n" +
        tag("%d", "d"));
  IndexExpr n =
      analysis.get(module->lookupSymbol<KernelOp>("k").getArgNamed("n"));
  EXPECT_EQ(at("d"), n * 128);
  EXPECT_EQ(analysis.toString(at("d") + 5), "128 * n + 5");
  // Nothing is known of an argument's sign.
  EXPECT_FALSE(analysis.isNonNegative(n));
  EXPECT_FALSE(analysis.isNonNegative(n * -1));
}

TEST_F(IndexAnalysisTest, KnowsLoopBoundsAndWorkItems) {
  parse(
      "%begin, %end, %tile, %base = flamia.work_item %work : memref<?x4xi32>\n"
      "%o = arith.muli %tile, %c128 : index\n"
      "%row = arith.addi %begin, %o : index\n" +
      tag("%row", "row") + tag("%end", "end") +
      "%count = arith.addi %tile, %c1 : index\n"
      "scf.for %i = %c1 to %count step %c1 {\n"
      "  %j = arith.subi %tile, %i : index\n"
      "  %p = arith.muli %j, %c128 : index\n"
      "  %key = arith.addi %begin, %p : index\n" +
      tag("%key", "key") + tag("%j", "j") + "}\n");
  // The tile holds a token of the document.
  EXPECT_TRUE(analysis.isLess(at("row"), at("end")));
  EXPECT_FALSE(analysis.isLess(at("row") + 1, at("end")));
  // Strictly past, and not more than that.
  EXPECT_TRUE(analysis.isLess(at("key") + 127, at("row")));
  EXPECT_FALSE(analysis.isLess(at("key") + 128, at("row")));
  EXPECT_TRUE(analysis.isNonNegative(at("j")));
  EXPECT_TRUE(analysis.isAtMost(at("key") + 128, at("end")));
}

TEST_F(IndexAnalysisTest, KnowsIntegerArithmetic) {
  parse("%d = flamia.dim %x[0] : memref<?xf32>\n"
        "%up = arith.ceildivui %d, %c128 : index\n"
        "%down = arith.divui %d, %c128 : index\n"
        "%rest = arith.remui %d, %c128 : index\n"
        "%min = arith.minsi %d, %n : index\n"
        "%max = arith.maxsi %d, %n : index\n"
        "%more = arith.addi %d, %c1 : index\n"
        "%one = arith.minui %more, %c128 : index\n"
        "%unknown = arith.ceildivui %n, %c128 : index\n" +
        tag("%d", "d") + tag("%up", "up") + tag("%down", "down") +
        tag("%rest", "rest") + tag("%min", "min") + tag("%max", "max") +
        tag("%one", "one") + tag("%unknown", "unknown"));
  IndexExpr d = at("d");
  EXPECT_TRUE(analysis.isNonNegative(d));
  EXPECT_TRUE(analysis.isAtMost(d, at("up") * 128));
  EXPECT_TRUE(analysis.isAtMost(at("up") * 128, d + 127));
  EXPECT_FALSE(analysis.isAtMost(at("up") * 128, d + 126));
  EXPECT_TRUE(analysis.isAtMost(at("down") * 128, d));
  EXPECT_FALSE(analysis.isAtMost(d, at("down") * 128));
  EXPECT_TRUE(analysis.isAtMost(at("rest"), 127));
  EXPECT_TRUE(analysis.isAtMost(at("min"), d));
  EXPECT_FALSE(analysis.isNonNegative(at("min")));
  EXPECT_TRUE(analysis.isNonNegative(at("max")));
  EXPECT_TRUE(analysis.isNonNegative(at("one") - 1));
  EXPECT_FALSE(analysis.isNonNegative(at("one") - 2));
  // An unsigned division of a number that may be negative says nothing.
  EXPECT_FALSE(analysis.isNonNegative(at("unknown")));
}

TEST_F(IndexAnalysisTest, EarlierIterationsDoNotCancel) {
  parse("scf.for %i = %c0 to %n step %c1 {\n"
        "  %a = arith.muli %i, %c128 : index\n"
        "  scf.for %j = %i to %n step %c2 {\n" +
        tag("%a", "a") + tag("%j", "j") + "  }\n}\n");
  ASSERT_EQ(loops.size(), 2u);
  mlir::scf::ForOp outer = loops[1], inner = loops[0];
  if (!outer->isProperAncestor(inner))
    std::swap(outer, inner);
  IndexExpr earlier = analysis.inEarlierIteration(at("a"), outer);
  EXPECT_NE(earlier, at("a"));
  EXPECT_EQ(analysis.inEarlierIteration(earlier, outer), earlier);
  // It still lies in the loop's range.
  EXPECT_TRUE(analysis.isNonNegative(earlier));
  EXPECT_FALSE(analysis.isAtMost(earlier, at("a")));
  EXPECT_FALSE(analysis.isAtMost(at("a"), earlier));
  // The inner loop's range moved with the outer iteration: nothing is left.
  EXPECT_TRUE(analysis.isNonNegative(at("j")));
  EXPECT_FALSE(
      analysis.isNonNegative(analysis.inEarlierIteration(at("j"), outer)));
  EXPECT_EQ(analysis.inEarlierIteration(at("a"), inner), at("a"));
}

TEST_F(IndexAnalysisTest, AssumptionsEnd) {
  parse(tag("%n", "n"));
  {
    IndexAnalysis::Assumption assumption(analysis, at("n") - 5);
    EXPECT_TRUE(analysis.isNonNegative(at("n") - 5));
    EXPECT_FALSE(analysis.isNonNegative(at("n") - 6));
  }
  EXPECT_FALSE(analysis.isNonNegative(at("n") - 5));
}

} // namespace
