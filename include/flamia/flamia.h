/*===- flamia.h - flamia's C interface -----------------------------*- C
-*-===*\
|*
|* Microscaled causal attention on packed documents, for callers of any
language.
|* A thin layer over flamia/Runtime/Attention.h and AttentionBackward.h.
|*
|* Memory and streams belong to the caller. flamia_forward_launch and
|* flamia_backward_launch allocate nothing and wait for nothing, so they can be
|* captured in a CUDA graph; all checks and uploads happen in
|* flamia_attention_prepare and flamia_backward_prepare.
|*
|* Every function that can fail returns a status; flamia_last_error() has the
|* message of the calling thread's last failure. No function exits or throws.
|* Null pointers are refused with FLAMIA_INVALID_ARGUMENT, destroy functions
|* ignore them. A device must outlive what was made with it, and an attention
its
|* plans. Objects are not thread-safe.
|*
\*===----------------------------------------------------------------------===*/
#ifndef FLAMIA_FLAMIA_H
#define FLAMIA_FLAMIA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum flamia_status {
  FLAMIA_OK = 0,
  FLAMIA_INVALID_ARGUMENT = 1, /* a value breaks a documented rule */
  FLAMIA_NOT_SUPPORTED = 2,    /* legal, but not in this version or device */
  FLAMIA_NO_DEVICE = 3,        /* no driver, no GPU */
  FLAMIA_NOT_FOUND = 4,        /* a file or a kernel does not exist */
  FLAMIA_LAUNCH_FAILED = 5,    /* the device reported an error */
  FLAMIA_OTHER_ERROR = 6
} flamia_status;

/* Message of this thread's last failed call; "" when there was none. Valid
   until the thread's next failure. */
const char *flamia_last_error(void);

/*===-- Devices
 * ------------------------------------------------------------===*/

typedef struct flamia_device flamia_device;

/* The PTX simulator, on all processors of this machine. */
flamia_status flamia_device_create_simulator(flamia_device **device);
/* GPU `ordinal` through the CUDA driver, in its primary context. */
flamia_status flamia_device_create_cuda(int ordinal, flamia_device **device);
void flamia_device_destroy(flamia_device *device);

/* Memory for callers that do not bring their own (a CUDA caller may pass any
   device pointer). Addresses are multiples of 256. Copies wait for their end.
 */
flamia_status flamia_device_allocate(flamia_device *device, const char *name,
                                     uint64_t bytes, uint64_t *address);
flamia_status flamia_device_release(flamia_device *device, uint64_t address);
flamia_status flamia_device_upload(flamia_device *device, uint64_t address,
                                   const void *data, uint64_t bytes);
flamia_status flamia_device_download(flamia_device *device, void *data,
                                     uint64_t address, uint64_t bytes);
/* `stream` is a CUstream or null. */
flamia_status flamia_device_synchronize(flamia_device *device, void *stream);

/*===-- Attention
 * ----------------------------------------------------------===*/

/* Number formats: everything E4M3, or scores from NVFP4 (E2M1 with E4M3 scales
   per 16 channels) and the rest as in mxfp8. */
typedef enum flamia_format {
  FLAMIA_FORMAT_MXFP8 = 0,
  FLAMIA_FORMAT_NVFP4 = 1
} flamia_format;

typedef struct flamia_attention_config {
  int64_t heads;    /* query heads, a multiple of kv_heads */
  int64_t kv_heads; /* query head h reads kv head h / (heads / kv_heads) */
  int64_t head_dim; /* 64 or 128 */
  int32_t causal;   /* nonzero: token t sees tokens <= t of its document */
  /* Finite and >= 0; used when use_default_scale is 0, else 1/sqrt(head_dim).
   */
  float softmax_scale;
  int32_t use_default_scale;
  const char *arch; /* "sm_100a"...; null: whatever the folder holds */
  int32_t format;   /* flamia_format */
  /* Second-level scales of Q and K, from 2^-32 to 2^32; read in format nvfp4
     only. A constant or a maximum over earlier steps, never a maximum over the
     tensors of this step, which sees later tokens and other documents. The
     backward needs the forward's. */
  float q_global_scale, k_global_scale;
} flamia_attention_config;

/* 1 head, 1 kv head, head_dim 128, causal, default scale, any arch, mxfp8,
   second-level scales 2^-3. */
void flamia_attention_config_init(flamia_attention_config *config);

/* cu_seqlens on the host: count entries of 4 or 8 bytes, first 0, never
   decreasing, the last is the number of tokens.

   Or on the device, with device_address, tokens and element_bytes = 4, and data
   and max_length 0: the host never reads the entries, and launches make the
   work list from them. The last may then be less than `tokens`, the rows of the
   tensors. If the entries are not legal, a launch writes nothing but workspace,
   and entry 3 of the workspace's tensor "list_state" (int32) is 1, else 0. */
typedef struct flamia_offsets {
  const void *data;
  size_t count;            /* documents + 1 */
  int32_t element_bytes;   /* 4: int32, 8: int64 */
  int64_t max_length;      /* longest allowed document; 0: any */
  uint64_t device_address; /* 0: on the host; else a multiple of 16 */
  int64_t tokens;          /* rows of the tensors, with device_address */
} flamia_offsets;

/* Bytes of workspace that a forward on these documents needs. */
flamia_status
flamia_attention_workspace_size(const flamia_attention_config *config,
                                const flamia_offsets *offsets, uint64_t *bytes);

/* A tensor inside the workspace. */
typedef struct flamia_tensor_info {
  const char *name;    /* static: "q_data", "m", ... */
  const char *element; /* static: "f32", "f8E4M3FN", "f4E2M1FN" (two a byte) */
  int32_t rank;
  uint64_t extents[4]; /* in elements, outermost first, row-major */
  uint64_t offset;     /* bytes from the start of the workspace */
  uint64_t bytes;
  int32_t saved; /* nonzero: the backward reads it, so keep it */
} flamia_tensor_info;

/* Tensor number `index` of the workspace; FLAMIA_NOT_FOUND after the last. */
flamia_status
flamia_attention_workspace_tensor(const flamia_attention_config *config,
                                  const flamia_offsets *offsets, size_t index,
                                  flamia_tensor_info *info);

/* Name of the index-th tensor that a backward needs to find unchanged, the
   caller's own (v and o) and those of the workspace; null after the last. The
   second form is for any format, the first for mxfp8. */
const char *flamia_attention_saved_tensor(size_t index);
const char *flamia_attention_saved_tensor_of(flamia_format format,
                                             size_t index);

typedef struct flamia_attention flamia_attention;

/* Loads the kernels of one configuration from a folder that flamiac wrote. */
flamia_status flamia_attention_create(flamia_device *device,
                                      const char *kernel_folder,
                                      const flamia_attention_config *config,
                                      flamia_attention **attention);
void flamia_attention_destroy(flamia_attention *attention);

/* Other second-level scales for plans to come, in format nvfp4. A backward
   needs those that its forward was prepared with. */
flamia_status flamia_attention_set_global_scales(flamia_attention *attention,
                                                 float q_global_scale,
                                                 float k_global_scale);

/* Device addresses. BF16: q and o [tokens, heads, head_dim], k and v [tokens,
   kv_heads, head_dim]; float32: lse [tokens, heads] (natural logarithm).
   Tensors are row-major at multiples of 16, the workspace at one of 256. What
   is written (o, lse, the workspace) must not overlap anything else. */
typedef struct flamia_forward_tensors {
  uint64_t q, k, v, o, lse;
  uint64_t workspace, workspace_bytes;
  /* Elements from token to token and from head to head, multiples of 8 below
     2^33; both 0: contiguous. So q, k and v can lie in one tensor [tokens, 3,
     heads, head_dim] (strides 3 * heads * head_dim and head_dim) or in padded
     rows. */
  uint64_t q_strides[2], k_strides[2], v_strides[2];
} flamia_forward_tensors;

typedef struct flamia_forward_plan flamia_forward_plan;

/* Checks everything, uploads the work list into the workspace and prepares the
   launches. The addresses stay bound; what they hold may change. */
flamia_status flamia_attention_prepare(flamia_attention *attention,
                                       const flamia_offsets *offsets,
                                       const flamia_forward_tensors *tensors,
                                       flamia_forward_plan **plan);
void flamia_forward_plan_destroy(flamia_forward_plan *plan);

/* Enqueues quantization and attention on `stream` (a CUstream or null). The
   simulator runs them to their end. */
flamia_status flamia_forward_launch(flamia_forward_plan *plan, void *stream);

/*===-- Backward
 * ------------------------------------------------------------===*/

/* Bytes of workspace that a backward on these documents needs beside the
   forward's, and tensor number `index` of it (FLAMIA_NOT_FOUND after the last).
   Nothing in it outlives the backward. */
flamia_status
flamia_backward_workspace_size(const flamia_attention_config *config,
                               const flamia_offsets *offsets, uint64_t *bytes);
flamia_status
flamia_backward_workspace_tensor(const flamia_attention_config *config,
                                 const flamia_offsets *offsets, size_t index,
                                 flamia_tensor_info *info);

typedef struct flamia_backward flamia_backward;

/* Loads the backward's kernels of one configuration. `with_d_lse`: nonzero
   where the LSE has a gradient too. */
flamia_status flamia_backward_create(flamia_device *device,
                                     const char *kernel_folder,
                                     const flamia_attention_config *config,
                                     int32_t with_d_lse,
                                     flamia_backward **backward);
void flamia_backward_destroy(flamia_backward *backward);
flamia_status flamia_backward_set_global_scales(flamia_backward *backward,
                                                float q_global_scale,
                                                float k_global_scale);

/* Device addresses. BF16: d_o and d_q [tokens, heads, head_dim], d_k and d_v
   [tokens, kv_heads, head_dim]; float32: d_lse [tokens, heads] (gradient of the
   natural logarithm; 0 without). The forward must have run on the same
   documents; of its tensors v, o and the workspace are read. Gradients are
   written, not added to. What is written must not overlap anything else. */
typedef struct flamia_backward_tensors {
  flamia_forward_tensors forward;
  uint64_t d_o, d_lse, d_q, d_k, d_v;
  uint64_t workspace, workspace_bytes; /* the backward's own */
  /* As the strides of a forward; v has those that it has there. The gradients
     may lie in one tensor [tokens, 3, heads, head_dim]. In what is written a
     token's heads lie before the next token's. */
  uint64_t d_o_strides[2], d_q_strides[2], d_k_strides[2], d_v_strides[2];
} flamia_backward_tensors;

typedef struct flamia_backward_plan flamia_backward_plan;

/* Checks everything and prepares the launches; copies nothing. The addresses
   stay bound; what they hold may change. */
flamia_status flamia_backward_prepare(flamia_backward *backward,
                                      const flamia_offsets *offsets,
                                      const flamia_backward_tensors *tensors,
                                      flamia_backward_plan **plan);
void flamia_backward_plan_destroy(flamia_backward_plan *plan);

/* Enqueues the backward on `stream` (a CUstream or null). The simulator runs it
   to its end. */
flamia_status flamia_backward_launch(flamia_backward_plan *plan, void *stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FLAMIA_FLAMIA_H */
