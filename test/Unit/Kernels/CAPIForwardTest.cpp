//===- CAPIForwardTest.cpp - Passes through the C interface
//-----------------===//
//
// The calls are in test/Unit/CAPI/capi_calls.c, compiled as C.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "flamia/flamia.h"
#include "test/Unit/CAPI/capi_calls.h"

using namespace flamia::test;

TEST(CAPI, ForwardOnTheSimulator) {
  for (int format : {FLAMIA_FORMAT_MXFP8, FLAMIA_FORMAT_NVFP4}) {
    const char *fault = test_forward(kernelFolder, format);
    EXPECT_EQ(std::string(fault ? fault : ""), "") << format;
  }
}

TEST(CAPI, BackwardOnTheSimulator) {
  for (int format : {FLAMIA_FORMAT_MXFP8, FLAMIA_FORMAT_NVFP4}) {
    const char *fault =
        test_backward(kernelFolder, format, /*offsets_on_device=*/0);
    EXPECT_EQ(std::string(fault ? fault : ""), "") << format;
  }
}

TEST(CAPI, BackwardWithOffsetsOnTheDevice) {
  const char *fault = test_backward(kernelFolder, FLAMIA_FORMAT_MXFP8,
                                    /*offsets_on_device=*/1);
  EXPECT_EQ(std::string(fault ? fault : ""), "");
}
