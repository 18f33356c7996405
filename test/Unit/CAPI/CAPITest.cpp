//===- CAPITest.cpp - Runs the tests written in C -------------------------===//
//
// The calls themselves are in capi_calls.c, so that the header is used as C.
//
//===----------------------------------------------------------------------===//

#include "capi_calls.h"

#include "gtest/gtest.h"

static std::string text(const char *message) { return message ? message : ""; }

TEST(CAPI, Workspace) { EXPECT_EQ(text(test_workspace()), ""); }
TEST(CAPI, BackwardWorkspace) {
  EXPECT_EQ(text(test_backward_workspace()), "");
}
TEST(CAPI, Refusals) { EXPECT_EQ(text(test_refusals()), ""); }
TEST(CAPI, SavedTensors) { EXPECT_EQ(text(test_saved_tensors()), ""); }
TEST(CAPI, Format) { EXPECT_EQ(text(test_format()), ""); }
TEST(CAPI, SimulatorMemory) { EXPECT_EQ(text(test_simulator_memory()), ""); }
