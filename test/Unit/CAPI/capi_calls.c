/*===- capi_calls.c - Tests written in C ---------------------------*- C
-*-===*\
|* Calls of flamia.h from C. See capi_calls.h.
\*===----------------------------------------------------------------------===*/
#include "capi_calls.h"

#include "flamia/flamia.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char message[1024];

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      snprintf(message, sizeof message, "line %d: %s (last error: %s)",        \
               __LINE__, #condition, flamia_last_error());                     \
      return message;                                                          \
    }                                                                          \
  } while (0)

#define CHECK_FAILS(call, status, text)                                        \
  do {                                                                         \
    CHECK((call) == (status));                                                 \
    CHECK(strcmp(flamia_last_error(), text) == 0);                             \
  } while (0)

static flamia_offsets offsets32(const int32_t *data, size_t count) {
  flamia_offsets offsets = {0};
  offsets.data = data;
  offsets.count = count;
  offsets.element_bytes = 4;
  return offsets;
}

const char *test_workspace(void) {
  static const int32_t cu[] = {0, 5, 5, 305};
  flamia_offsets offsets = offsets32(cu, 4);
  flamia_attention_config config;
  flamia_tensor_info info;
  uint64_t bytes = 0, end = 0;
  size_t count = 0;

  flamia_attention_config_init(&config);
  config.heads = 4;
  config.kv_heads = 2;
  CHECK(flamia_attention_workspace_size(&config, &offsets, &bytes) ==
        FLAMIA_OK);
  while (flamia_attention_workspace_tensor(&config, &offsets, count, &info) ==
         FLAMIA_OK) {
    CHECK(info.offset % 256 == 0);
    CHECK(info.offset >= end);
    end = info.offset + info.bytes;
    CHECK(end <= bytes);
    if (strcmp(info.name, "work") == 0) {
      /* 1 tile of the first document, 3 of the third. */
      CHECK(info.rank == 2 && info.extents[0] == 4 && info.extents[1] == 4);
      CHECK(info.bytes == 64 && strcmp(info.element, "i32") == 0);
    }
    if (strcmp(info.name, "q_data") == 0) {
      CHECK(info.rank == 3 && info.extents[0] == 305 && info.extents[1] == 4 &&
            info.extents[2] == 128);
      CHECK(info.saved);
    }
    if (strcmp(info.name, "k_scale") == 0)
      CHECK(info.bytes == 4 * 2 * 512);
    if (strcmp(info.name, "kappa") == 0)
      CHECK(info.bytes == 305 * 4 * 4 && strcmp(info.element, "f32") == 0);
    if (strcmp(info.name, "v_scale_rows") == 0)
      CHECK(!info.saved);
    ++count;
  }
  CHECK(count == 11);
  CHECK(bytes - end < 256);
  CHECK(strcmp(flamia_last_error(),
               "the workspace has 11 tensors, there is no number 11") == 0);

  /* int64 offsets give the same answer, an empty pack a small one. */
  {
    static const int64_t wide[] = {0, 5, 5, 305};
    uint64_t again = 0;
    offsets.data = wide;
    offsets.element_bytes = 8;
    CHECK(flamia_attention_workspace_size(&config, &offsets, &again) ==
          FLAMIA_OK);
    CHECK(again == bytes);
    offsets.count = 1;
    CHECK(flamia_attention_workspace_size(&config, &offsets, &again) ==
          FLAMIA_OK);
    CHECK(again == 0);
  }
  return NULL;
}

/* Bytes of the forward's and the backward's workspace for one document. */
static uint64_t workspace_of(const flamia_attention_config *config,
                             int64_t tokens) {
  const int64_t cu[] = {0, tokens};
  flamia_offsets offsets = {0};
  uint64_t forward = 0, backward = 0;
  offsets.data = cu;
  offsets.count = 2;
  offsets.element_bytes = 8;
  if (flamia_attention_workspace_size(config, &offsets, &forward) ||
      flamia_backward_workspace_size(config, &offsets, &backward))
    return 0;
  return forward + backward;
}

const char *test_backward_workspace(void) {
  static const int32_t cu[] = {0, 5, 5, 305};
  const uint64_t tokens = 305, tiles = 4, heads = 4, kv_heads = 2, dim = 64;
  flamia_offsets offsets = offsets32(cu, 4);
  flamia_attention_config config;
  flamia_tensor_info info;
  uint64_t bytes = 0, sum = 0, end = 0, per_tile;
  size_t count = 0, d;

  flamia_attention_config_init(&config);
  config.heads = (int64_t)heads;
  config.kv_heads = (int64_t)kv_heads;
  config.head_dim = (int64_t)dim;
  CHECK(flamia_backward_workspace_size(&config, &offsets, &bytes) == FLAMIA_OK);
  while (flamia_backward_workspace_tensor(&config, &offsets, count, &info) ==
         FLAMIA_OK) {
    uint64_t elements = 1;
    CHECK(info.offset % 256 == 0 && info.offset >= end && !info.saved);
    end = info.offset + info.bytes;
    CHECK(end <= bytes);
    for (d = 0; d < (size_t)info.rank; ++d)
      elements *= info.extents[d];
    CHECK(info.bytes == elements * (strcmp(info.element, "f32") == 0 ? 4 : 1));
    sum += info.bytes;
    /* No gradient in fp32, nothing with tokens twice. */
    CHECK(!(strcmp(info.element, "f32") == 0 && info.extents[0] == tokens &&
            info.rank == 3));
    CHECK(info.extents[1] == heads || info.extents[1] == kv_heads);
    if (strcmp(info.name, "do_data") == 0)
      CHECK(info.rank == 3 && info.extents[0] == tokens &&
            info.extents[1] == heads && info.extents[2] == dim);
    if (strcmp(info.name, "k_factor") == 0)
      CHECK(info.rank == 3 && info.extents[0] == tiles &&
            info.extents[1] == kv_heads && info.extents[2] == 128);
    ++count;
  }
  CHECK(count == 18);
  CHECK(strcmp(flamia_last_error(),
               "the workspace has 18 tensors, there is no number 18") == 0);
  CHECK(bytes - sum < 256 * count);
  /* The formula of the documentation. */
  CHECK(sum ==
        tokens * heads * (dim + 12) + tiles * (5120 * heads + 2048 * kv_heads));

  /* Linear in tokens: the same number of bytes for each further tile. Padding
     is a multiple of 256 here, so that it cancels. */
  per_tile = 128 * (heads * (dim + 12) + 2 * kv_heads * dim) + 512 * heads +
             1536 * kv_heads + 16 + 128 * heads * (dim + 12) + 5120 * heads +
             2048 * kv_heads;
  for (d = 1; d <= 1024; d *= 4)
    CHECK(workspace_of(&config, 4096 * (int64_t)(d + 1)) -
              workspace_of(&config, 4096 * (int64_t)d) ==
          32 * per_tile);
  return NULL;
}

const char *test_refusals(void) {
  static const int32_t cu[] = {0, 6, 4, 10};
  flamia_offsets offsets = offsets32(cu, 4);
  flamia_attention_config config;
  flamia_device *device = NULL;
  flamia_attention *attention = NULL;
  uint64_t bytes = 0;

  flamia_attention_config_init(&config);
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT,
              "cu_seqlens must never decrease, found 6 followed by 4 at index "
              "2");
  offsets.count = 2;
  offsets.max_length = 4;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT,
              "cu_seqlens has a document of 6 tokens at index 0, the given "
              "maximum is 4");
  offsets.max_length = 0;
  offsets.element_bytes = 2;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT,
              "offsets.element_bytes is 2, expected 4 or 8");
  offsets.element_bytes = 4;
  offsets.data = NULL;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT, "offsets.data is a null pointer");
  offsets.device_address = 256;
  offsets.tokens = -1;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT,
              "tokens is -1, expected 0 to 2147483647");
  offsets.tokens = 10;
  CHECK(flamia_attention_workspace_size(&config, &offsets, &bytes) ==
        FLAMIA_OK);
  offsets.data = cu;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT,
              "offsets are on the device, where data must be null");
  offsets.data = NULL;
  offsets.element_bytes = 8;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT,
              "offsets are on the device, where element_bytes must be 4, found "
              "8");
  offsets.element_bytes = 4;
  offsets.max_length = 6;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT,
              "offsets are on the device, where max_length must be 0, found 6");
  offsets.max_length = 0;
  offsets.count = 0;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT,
              "offsets are on the device, where count must be documents + 1, "
              "found 0");
  offsets.count = 2;
  offsets.device_address = 0;
  offsets.data = cu;
  CHECK_FAILS(flamia_attention_workspace_size(NULL, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT, "config is a null pointer");
  config.head_dim = 80;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_NOT_SUPPORTED,
              "head_dim 80 is not supported, expected 64 or 128");
  config.head_dim = 128;
  config.heads = 4;
  config.kv_heads = 3;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &bytes),
              FLAMIA_INVALID_ARGUMENT,
              "heads is 4, expected a multiple of kv_heads, which is 3");
  config.kv_heads = 2;
  config.use_default_scale = 0;
  config.softmax_scale = -1.0f;
  CHECK(flamia_attention_workspace_size(&config, &offsets, &bytes) ==
        FLAMIA_INVALID_ARGUMENT);
  CHECK(strstr(flamia_last_error(), "expected a finite number >= 0"));
  config.softmax_scale = 0.0f;
  CHECK(flamia_attention_workspace_size(&config, &offsets, &bytes) ==
        FLAMIA_OK);

  CHECK(flamia_device_create_simulator(&device) == FLAMIA_OK);
  CHECK_FAILS(
      flamia_attention_create(device, "/nonexistent", &config, &attention),
      FLAMIA_NOT_FOUND,
      "cannot read kernel folder '/nonexistent': No such file or "
      "directory");
  CHECK_FAILS(flamia_attention_create(device, NULL, &config, &attention),
              FLAMIA_INVALID_ARGUMENT, "kernel_folder is a null pointer");
  CHECK(attention == NULL);
  CHECK_FAILS(flamia_forward_launch(NULL, NULL), FLAMIA_INVALID_ARGUMENT,
              "plan is a null pointer");
  {
    flamia_backward *backward = NULL;
    CHECK_FAILS(
        flamia_backward_create(device, "/nonexistent", &config, 0, &backward),
        FLAMIA_NOT_FOUND,
        "cannot read kernel folder '/nonexistent': No such file or "
        "directory");
    CHECK_FAILS(flamia_backward_create(device, "/", &config, 0, NULL),
                FLAMIA_INVALID_ARGUMENT, "backward is a null pointer");
    CHECK(backward == NULL);
    CHECK_FAILS(flamia_backward_prepare(NULL, &offsets, NULL, NULL),
                FLAMIA_INVALID_ARGUMENT, "backward is a null pointer");
    CHECK_FAILS(flamia_backward_launch(NULL, NULL), FLAMIA_INVALID_ARGUMENT,
                "plan is a null pointer");
    CHECK_FAILS(flamia_backward_workspace_size(&config, &offsets, NULL),
                FLAMIA_INVALID_ARGUMENT, "bytes is a null pointer");
  }
  flamia_attention_destroy(NULL);
  flamia_forward_plan_destroy(NULL);
  flamia_backward_destroy(NULL);
  flamia_backward_plan_destroy(NULL);
  flamia_device_destroy(device);
  return NULL;
}

const char *test_saved_tensors(void) {
  static const char *const expected[] = {
      "v",       "o",      "work",         "q_data", "q_scale", "k_data",
      "k_scale", "v_data", "v_scale_cols", "m",      "l",       "kappa"};
  size_t i;
  for (i = 0; i < sizeof expected / sizeof *expected; ++i) {
    const char *name = flamia_attention_saved_tensor(i);
    CHECK(name && strcmp(name, expected[i]) == 0);
  }
  CHECK(flamia_attention_saved_tensor(i) == NULL);
  {
    static const char *const more[] = {"q_fp4", "q_fp4_scale", "k_fp4",
                                       "k_fp4_scale"};
    const size_t count = i;
    for (i = 0; i < count + 4; ++i) {
      const char *name =
          flamia_attention_saved_tensor_of(FLAMIA_FORMAT_NVFP4, i);
      CHECK(name &&
            strcmp(name, i < count ? expected[i] : more[i - count]) == 0);
    }
    CHECK(flamia_attention_saved_tensor_of(FLAMIA_FORMAT_NVFP4, i) == NULL);
  }
  return NULL;
}

const char *test_format(void) {
  static const int32_t cu[] = {0, 5, 5, 305};
  flamia_offsets offsets = offsets32(cu, 4);
  flamia_attention_config config;
  flamia_tensor_info info;
  uint64_t mxfp8 = 0, nvfp4 = 0;
  size_t i, found = 0;

  flamia_attention_config_init(&config);
  config.heads = 4;
  config.kv_heads = 2;
  CHECK(config.format == FLAMIA_FORMAT_MXFP8);
  CHECK(config.q_global_scale == 0.125f && config.k_global_scale == 0.125f);
  CHECK(flamia_attention_workspace_size(&config, &offsets, &mxfp8) ==
        FLAMIA_OK);
  config.format = FLAMIA_FORMAT_NVFP4;
  CHECK(flamia_attention_workspace_size(&config, &offsets, &nvfp4) ==
        FLAMIA_OK);
  /* 305 tokens, 4 tiles; at most 255 bytes of padding for each tensor. */
  CHECK(nvfp4 - mxfp8 >= 6 * 128 * (305 + 16 * 4) / 2 &&
        nvfp4 - mxfp8 < 6 * 128 * (305 + 16 * 4) / 2 + 4 * 256);
  for (i = 0; flamia_attention_workspace_tensor(&config, &offsets, i, &info) ==
              FLAMIA_OK;
       ++i) {
    if (strcmp(info.name, "k_fp4") == 0) {
      CHECK(strcmp(info.element, "f4E2M1FN") == 0 && info.saved);
      CHECK(info.rank == 3 && info.extents[0] == 305 && info.extents[1] == 2 &&
            info.extents[2] == 128);
      CHECK(info.bytes == 305 * 2 * 64);
      ++found;
    }
    if (strcmp(info.name, "q_fp4_scale") == 0) {
      CHECK(strcmp(info.element, "f8E4M3FN") == 0 && info.saved);
      CHECK(info.rank == 4 && info.extents[0] == 4 && info.extents[1] == 4 &&
            info.extents[2] == 2 && info.extents[3] == 512);
      ++found;
    }
  }
  CHECK(i == 15 && found == 2);

  config.format = 2;
  CHECK_FAILS(flamia_attention_workspace_size(&config, &offsets, &nvfp4),
              FLAMIA_INVALID_ARGUMENT,
              "format is 2, expected 0 (mxfp8) or 1 (nvfp4)");
  config.format = FLAMIA_FORMAT_NVFP4;
  config.k_global_scale = 0;
  CHECK_FAILS(flamia_backward_workspace_size(&config, &offsets, &nvfp4),
              FLAMIA_INVALID_ARGUMENT,
              "k_global_scale is 0, expected a number from 2^-32 to 2^32");
  config.format = FLAMIA_FORMAT_MXFP8; /* which has none */
  CHECK(flamia_backward_workspace_size(&config, &offsets, &nvfp4) == FLAMIA_OK);
  CHECK_FAILS(flamia_attention_set_global_scales(NULL, 1, 1),
              FLAMIA_INVALID_ARGUMENT, "attention is a null pointer");
  CHECK_FAILS(flamia_backward_set_global_scales(NULL, 1, 1),
              FLAMIA_INVALID_ARGUMENT, "backward is a null pointer");
  return NULL;
}

const char *test_simulator_memory(void) {
  flamia_device *device = NULL;
  uint64_t address = 0;
  char from[64], to[64];
  memset(from, 'x', sizeof from);
  memset(to, 0, sizeof to);
  CHECK(flamia_device_create_simulator(&device) == FLAMIA_OK);
  CHECK(flamia_device_allocate(device, "test", 64, &address) == FLAMIA_OK);
  CHECK(address % 256 == 0);
  CHECK(flamia_device_upload(device, address, from, 64) == FLAMIA_OK);
  CHECK(flamia_device_download(device, to, address, 64) == FLAMIA_OK);
  CHECK(memcmp(from, to, 64) == 0);
  CHECK(flamia_device_upload(device, address + 1, from, 64) ==
        FLAMIA_INVALID_ARGUMENT);
  CHECK(strstr(flamia_last_error(), "no allocation holds 64 bytes at address"));
  CHECK(flamia_device_release(device, address + 16) == FLAMIA_INVALID_ARGUMENT);
  CHECK(flamia_device_release(device, address) == FLAMIA_OK);
  CHECK(flamia_device_download(device, to, address, 64) ==
        FLAMIA_INVALID_ARGUMENT);
  CHECK(flamia_device_synchronize(device, NULL) == FLAMIA_OK);
  flamia_device_destroy(device);
  return NULL;
}

enum { TOKENS = 133, DIM = 64 };

const char *test_forward(const char *kernel_folder, int format) {
  static const int32_t cu[] = {0, 3, 3, TOKENS};
  static uint16_t values[TOKENS * DIM];
  flamia_offsets offsets = offsets32(cu, 4);
  flamia_attention_config config;
  flamia_forward_tensors tensors = {0};
  flamia_device *device = NULL;
  flamia_attention *attention = NULL;
  flamia_forward_plan *plan = NULL;
  const uint64_t bytes = sizeof values;
  size_t i;

  flamia_attention_config_init(&config);
  config.format = format;
  config.head_dim = DIM;
  CHECK(flamia_device_create_simulator(&device) == FLAMIA_OK);
  CHECK(flamia_attention_create(device, kernel_folder, &config, &attention) ==
        FLAMIA_OK);
  CHECK(flamia_attention_workspace_size(&config, &offsets,
                                        &tensors.workspace_bytes) == FLAMIA_OK);
  CHECK(flamia_device_allocate(device, "workspace", tensors.workspace_bytes,
                               &tensors.workspace) == FLAMIA_OK);
  CHECK(flamia_device_allocate(device, "q", bytes, &tensors.q) == FLAMIA_OK);
  CHECK(flamia_device_allocate(device, "k", bytes, &tensors.k) == FLAMIA_OK);
  CHECK(flamia_device_allocate(device, "v", bytes, &tensors.v) == FLAMIA_OK);
  CHECK(flamia_device_allocate(device, "o", bytes, &tensors.o) == FLAMIA_OK);
  CHECK(flamia_device_allocate(device, "lse", TOKENS * 4, &tensors.lse) ==
        FLAMIA_OK);
  for (i = 0; i < TOKENS * DIM; ++i)
    values[i] = (uint16_t)(0x3F00 + i * 2654435761u % 128); /* 0.5 to 1 */
  CHECK(flamia_device_upload(device, tensors.q, values, bytes) == FLAMIA_OK);
  CHECK(flamia_device_upload(device, tensors.k, values, bytes) == FLAMIA_OK);
  for (i = 0; i < TOKENS * DIM; ++i)
    values[i] = 0x3F80; /* 1 */
  CHECK(flamia_device_upload(device, tensors.v, values, bytes) == FLAMIA_OK);

  --tensors.workspace_bytes;
  CHECK(flamia_attention_prepare(attention, &offsets, &tensors, &plan) ==
        FLAMIA_INVALID_ARGUMENT);
  CHECK(strstr(flamia_last_error(), "bytes, expected"));
  ++tensors.workspace_bytes;
  tensors.q_strides[0] = DIM + 4;
  tensors.q_strides[1] = DIM;
  CHECK(flamia_attention_prepare(attention, &offsets, &tensors, &plan) ==
        FLAMIA_INVALID_ARGUMENT);
  CHECK(strstr(flamia_last_error(), "'q' has stride 68 in dimension 0"));
  tensors.q_strides[0] = DIM; /* as a contiguous tensor has them */
  CHECK(flamia_attention_prepare(attention, &offsets, &tensors, &plan) ==
        FLAMIA_OK);
  CHECK(flamia_forward_launch(plan, NULL) == FLAMIA_OK);
  /* A plan may be launched again. */
  CHECK(flamia_forward_launch(plan, NULL) == FLAMIA_OK);
  memset(values, 0, sizeof values);
  CHECK(flamia_device_download(device, values, tensors.o, bytes) == FLAMIA_OK);
  /* Exactly one in the first tile of a document (BF16 weights); E4M3 weights of
     past tiles may be off by half a unit, 2^-4. */
  for (i = 0; i < TOKENS * DIM; ++i)
    CHECK(i / DIM < 131 ? values[i] == 0x3F80
                        : values[i] >= 0x3F70 && values[i] <= 0x3F88);
  flamia_forward_plan_destroy(plan);
  flamia_attention_destroy(attention);
  flamia_device_destroy(device);
  return NULL;
}

static float bf16_value(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}

const char *test_backward(const char *kernel_folder, int format,
                          int offsets_on_device) {
  static const int32_t cu[] = {0, 3, 3, TOKENS};
  static uint16_t values[TOKENS * DIM], ones[TOKENS * DIM], dv[TOKENS * DIM];
  flamia_offsets offsets = offsets32(cu, 4);
  flamia_attention_config config;
  flamia_backward_tensors tensors = {0};
  flamia_forward_tensors *forward = &tensors.forward;
  flamia_device *device = NULL;
  flamia_attention *attention = NULL;
  flamia_backward *backward = NULL;
  flamia_forward_plan *forward_plan = NULL;
  flamia_backward_plan *plan = NULL;
  const uint64_t bytes = sizeof values;
  double sum = 0;
  size_t i, d;

  flamia_attention_config_init(&config);
  config.format = format;
  config.head_dim = DIM;
  CHECK(flamia_device_create_simulator(&device) == FLAMIA_OK);
  if (offsets_on_device) {
    offsets.data = NULL;
    offsets.tokens = TOKENS;
    CHECK(flamia_device_allocate(device, "cu_seqlens", sizeof cu,
                                 &offsets.device_address) == FLAMIA_OK);
    CHECK(flamia_device_upload(device, offsets.device_address, cu, sizeof cu) ==
          FLAMIA_OK);
  }
  CHECK(flamia_attention_create(device, kernel_folder, &config, &attention) ==
        FLAMIA_OK);
  CHECK(flamia_backward_create(device, kernel_folder, &config, 0, &backward) ==
        FLAMIA_OK);
  CHECK(flamia_attention_workspace_size(
            &config, &offsets, &forward->workspace_bytes) == FLAMIA_OK);
  CHECK(flamia_backward_workspace_size(&config, &offsets,
                                       &tensors.workspace_bytes) == FLAMIA_OK);
  {
    struct {
      const char *name;
      uint64_t bytes, *address;
    } buffers[] = {
        {"q", bytes, &forward->q},
        {"k", bytes, &forward->k},
        {"v", bytes, &forward->v},
        {"o", bytes, &forward->o},
        {"lse", TOKENS * 4, &forward->lse},
        {"workspace", forward->workspace_bytes, &forward->workspace},
        {"do", bytes, &tensors.d_o},
        {"dq", bytes, &tensors.d_q},
        {"dk", bytes, &tensors.d_k},
        {"dv", bytes, &tensors.d_v},
        {"backward workspace", tensors.workspace_bytes, &tensors.workspace}};
    for (i = 0; i < sizeof buffers / sizeof *buffers; ++i)
      CHECK(flamia_device_allocate(device, buffers[i].name, buffers[i].bytes,
                                   buffers[i].address) == FLAMIA_OK);
  }
  for (i = 0; i < TOKENS * DIM; ++i) {
    values[i] = (uint16_t)(0x3F00 + i * 2654435761u % 128); /* 0.5 to 1 */
    ones[i] = 0x3F80;
  }
  CHECK(flamia_device_upload(device, forward->q, values, bytes) == FLAMIA_OK);
  CHECK(flamia_device_upload(device, forward->k, values, bytes) == FLAMIA_OK);
  CHECK(flamia_device_upload(device, forward->v, ones, bytes) == FLAMIA_OK);
  CHECK(flamia_device_upload(device, tensors.d_o, ones, bytes) == FLAMIA_OK);

  CHECK(flamia_attention_prepare(attention, &offsets, forward, &forward_plan) ==
        FLAMIA_OK);
  --tensors.workspace_bytes;
  CHECK(flamia_backward_prepare(backward, &offsets, &tensors, &plan) ==
        FLAMIA_INVALID_ARGUMENT);
  CHECK(strstr(flamia_last_error(), "the backward's workspace has"));
  ++tensors.workspace_bytes;
  tensors.d_lse = forward->lse;
  CHECK_FAILS(flamia_backward_prepare(backward, &offsets, &tensors, &plan),
              FLAMIA_INVALID_ARGUMENT,
              "a dLSE is given, but this backward was created without");
  tensors.d_lse = 0;
  {
    uint64_t *strides[] = {forward->v_strides, tensors.d_o_strides,
                           tensors.d_q_strides, tensors.d_k_strides,
                           tensors.d_v_strides};
    static const char *const messages[] = {"'v' has stride 68 in dimension 0",
                                           "'do' has stride 68 in dimension 0",
                                           "'dq' has stride 68 in dimension 0",
                                           "'dk' has stride 68 in dimension 0",
                                           "'dv' has stride 68 in dimension 0"};
    for (i = 0; i < sizeof strides / sizeof *strides; ++i) {
      strides[i][0] = DIM + 4;
      strides[i][1] = DIM;
      CHECK(flamia_backward_prepare(backward, &offsets, &tensors, &plan) ==
            FLAMIA_INVALID_ARGUMENT);
      CHECK(strstr(flamia_last_error(), messages[i]));
      strides[i][0] = DIM; /* as a contiguous tensor has them */
    }
  }
  CHECK(flamia_backward_prepare(backward, &offsets, &tensors, &plan) ==
        FLAMIA_OK);
  CHECK(flamia_forward_launch(forward_plan, NULL) == FLAMIA_OK);
  CHECK(flamia_backward_launch(plan, NULL) == FLAMIA_OK);
  /* A plan may be launched again: gradients are written, not added to. */
  CHECK(flamia_backward_launch(plan, NULL) == FLAMIA_OK);

  /* V is the same everywhere, so that weights do not matter: dQ = 0 up to 1% of
     scale |dO| |V| |K|, about 48, and dV sums to the number of queries of each
     document. */
  CHECK(flamia_device_download(device, dv, tensors.d_v, bytes) == FLAMIA_OK);
  for (d = 0; d < 3; ++d) {
    size_t length = (size_t)(cu[d + 1] - cu[d]);
    for (sum = 0, i = 0; i < length; ++i)
      sum += bf16_value(dv[((size_t)cu[d] + i) * DIM + 5]);
    CHECK(sum >= 0.99 * (double)length && sum <= 1.01 * (double)length);
  }
  CHECK(flamia_device_download(device, values, tensors.d_q, bytes) ==
        FLAMIA_OK);
  for (i = 0; i < TOKENS * DIM; ++i)
    CHECK(bf16_value(values[i]) < 0.5f && bf16_value(values[i]) > -0.5f);
  flamia_backward_plan_destroy(plan);
  flamia_forward_plan_destroy(forward_plan);
  flamia_backward_destroy(backward);
  flamia_attention_destroy(attention);
  flamia_device_destroy(device);
  return NULL;
}
