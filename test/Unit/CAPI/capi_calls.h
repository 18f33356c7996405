/*===- capi_calls.h - Tests written in C ---------------------------*- C
-*-===*\
|* Each function returns null, or what went wrong.
\*===----------------------------------------------------------------------===*/
#ifndef FLAMIA_TEST_UNIT_CAPI_CAPI_CALLS_H
#define FLAMIA_TEST_UNIT_CAPI_CAPI_CALLS_H

#ifdef __cplusplus
extern "C" {
#endif

const char *test_workspace(void);
const char *test_backward_workspace(void);
const char *test_refusals(void);
const char *test_saved_tensors(void);
const char *test_format(void);
const char *test_simulator_memory(void);
/* Runs a forward on the simulator with the kernels of a folder in a format: V
   is one in every element, so O must be one too. */
const char *test_forward(const char *kernel_folder, int format);
/* The same for the backward, with dO of ones; cu_seqlens on the host or on the
   device. */
const char *test_backward(const char *kernel_folder, int format,
                          int offsets_on_device);

#ifdef __cplusplus
}
#endif

#endif
