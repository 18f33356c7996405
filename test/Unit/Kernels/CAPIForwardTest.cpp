//===- CAPIForwardTest.cpp - Passes through the C interface
//-----------------===//
//
// The calls are in test/Unit/CAPI/capi_calls.c, compiled as C.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "test/Unit/CAPI/capi_calls.h"

using namespace flamia::test;

TEST(CAPI, ForwardOnTheSimulator) {
  const char *fault = test_forward(kernelFolder);
  EXPECT_EQ(std::string(fault ? fault : ""), "");
}

TEST(CAPI, BackwardOnTheSimulator) {
  const char *fault = test_backward(kernelFolder);
  EXPECT_EQ(std::string(fault ? fault : ""), "");
}
