//===- InputLimitsTest.cpp - Limits on input text -------------------------===//

#include "passes/InputLimits.h"

#include "gtest/gtest.h"

using namespace flamia;

static std::string check(const std::string &text) {
  return llvm::toString(checkInputLimits(text));
}

static std::string repeated(const char *text, unsigned count) {
  std::string result;
  for (unsigned i = 0; i < count; ++i)
    result += text;
  return result;
}

TEST(InputLimits, CountsBracketsOfAllKinds) {
  EXPECT_EQ(check(repeated("{", maxNesting) + repeated("}", maxNesting)), "");
  for (const char *bracket : {"(", "[", "{", "<"})
    EXPECT_EQ(check("\n" + repeated(bracket, maxNesting + 1)),
              "line 2: nested deeper than 256 levels");
  // Closing more than was opened does not make room.
  EXPECT_NE(check(repeated(")", 1000) + repeated("(", maxNesting + 1)), "");
  EXPECT_EQ(check(repeated("() ", 100000)), "");
}

TEST(InputLimits, LeavesOutStringsCommentsAndArrows) {
  EXPECT_EQ(check("\"" + repeated("(", 1000) + "\""), "");
  EXPECT_EQ(check("\"\\\"" + repeated("(", 1000) + "\""), "");
  EXPECT_EQ(check("// " + repeated("(", 1000) + "\n"), "");
  EXPECT_EQ(check(repeated("<->>", 1000)), "");
  EXPECT_EQ(check(repeated("-> >= <= ", 1000)), "");
}

TEST(InputLimits, CountsOperatorsInAffineExpressionsOnly) {
  std::string sum = "d0" + repeated(" + d0", maxAffineOperators);
  EXPECT_EQ(check("#a = affine_map<(d0) -> (" + sum + ")>"), "");
  EXPECT_EQ(check("#a = affine_map<(d0) -> (" + sum + " mod 2)>"),
            "line 1: more than 1000 operators in an affine expression");
  EXPECT_EQ(check(repeated("+", 5000)), "");
  // Each map counts for itself.
  EXPECT_EQ(check(repeated(("affine_map<(d0) -> (" + sum + ")> ").c_str(), 9)),
            "");
}

TEST(InputLimits, LetsBytecodePass) {
  EXPECT_EQ(check("ML\xefR" + repeated("(", 1000)), "");
}
