//===- CAPI.cpp - flamia's C interface ------------------------------------===//
//
// Wraps lib/Runtime: handles, null checks, and errors as a status with a
// message of the thread.
//
//===----------------------------------------------------------------------===//

#include "flamia/flamia.h"

#include "flamia/Runtime/Runtime.h"
#include "flamia/Sim/Simulator.h"

#include "llvm/ADT/Twine.h"

#include <cstring>
#include <mutex>
#include <set>

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

struct flamia_device {
  std::unique_ptr<Device> device;
};
struct flamia_attention {
  std::unique_ptr<AttentionForward> forward;
};
struct flamia_forward_plan {
  std::unique_ptr<ForwardPlan> plan;
};
struct flamia_backward {
  std::unique_ptr<AttentionBackward> backward;
};
struct flamia_backward_plan {
  std::unique_ptr<BackwardPlan> plan;
};

namespace {

thread_local std::string lastError;

flamia_status statusOf(ErrorCode code) {
  switch (code) {
  case ErrorCode::InvalidArgument:
    return FLAMIA_INVALID_ARGUMENT;
  case ErrorCode::NotSupported:
    return FLAMIA_NOT_SUPPORTED;
  case ErrorCode::NoDevice:
    return FLAMIA_NO_DEVICE;
  case ErrorCode::NotFound:
    return FLAMIA_NOT_FOUND;
  case ErrorCode::LaunchFailed:
    return FLAMIA_LAUNCH_FAILED;
  }
  return FLAMIA_OTHER_ERROR;
}

/// Keeps the message and turns the error into a status.
flamia_status finish(Error error) {
  if (!error)
    return FLAMIA_OK;
  flamia_status status = FLAMIA_OTHER_ERROR;
  std::string message;
  handleAllErrors(
      std::move(error),
      [&](const RuntimeError &fault) {
        status = statusOf(fault.errorCode());
        message = fault.message();
      },
      [&](const ErrorInfoBase &fault) { message = fault.message(); });
  lastError = std::move(message);
  return status;
}

Error isNull(const char *what) {
  return makeError(ErrorCode::InvalidArgument,
                   Twine(what) + " is a null pointer");
}

/// Hands a successful result out as a handle.
template <typename Handle, typename T>
flamia_status give(Expected<std::unique_ptr<T>> value, Handle **handle) {
  if (!value)
    return finish(value.takeError());
  *handle = new Handle{std::move(*value)};
  return FLAMIA_OK;
}

Expected<Format> formatOf(int32_t format) {
  if (format == FLAMIA_FORMAT_MXFP8)
    return Format::Mxfp8;
  if (format == FLAMIA_FORMAT_NVFP4)
    return Format::Nvfp4;
  return makeError(ErrorCode::InvalidArgument,
                   "format is " + Twine(format) +
                       ", expected 0 (mxfp8) or 1 (nvfp4)");
}

Expected<AttentionConfig> configOf(const flamia_attention_config &from) {
  Expected<Format> format = formatOf(from.format);
  if (!format)
    return format.takeError();
  AttentionConfig config;
  config.format = *format;
  config.qGlobalScale = from.q_global_scale;
  config.kGlobalScale = from.k_global_scale;
  config.heads = from.heads;
  config.kvHeads = from.kv_heads;
  config.headDim = from.head_dim;
  config.causal = from.causal != 0;
  if (!from.use_default_scale)
    config.softmaxScale = from.softmax_scale;
  config.arch = from.arch ? from.arch : "";
  return config;
}

/// Offsets as int64, checked, or where they are on the device.
struct Offsets {
  std::vector<int64_t> host;
  std::optional<DeviceOffsets> device;
};

Error isWrongDeviceOffsets(const flamia_offsets &from) {
  auto fault = [](const Twine &text) {
    return makeError(ErrorCode::InvalidArgument,
                     "offsets are on the device, where " + text);
  };
  if (from.data)
    return fault("data must be null");
  if (from.element_bytes != 4)
    return fault("element_bytes must be 4, found " + Twine(from.element_bytes));
  if (from.max_length)
    return fault("max_length must be 0, found " + Twine(from.max_length));
  if (!from.count)
    return fault("count must be documents + 1, found 0");
  return Error::success();
}

Expected<Offsets> offsetsOf(const flamia_offsets *from) {
  if (!from)
    return isNull("offsets");
  if (from->device_address) {
    if (Error error = isWrongDeviceOffsets(*from))
      return std::move(error);
    Offsets offsets;
    offsets.device = {from->device_address, int64_t(from->count) - 1,
                      from->tokens};
    return offsets;
  }
  if (!from->data && from->count)
    return isNull("offsets.data");
  if (from->element_bytes != 4 && from->element_bytes != 8)
    return makeError(ErrorCode::InvalidArgument,
                     "offsets.element_bytes is " + Twine(from->element_bytes) +
                         ", expected 4 or 8");
  std::vector<int64_t> offsets(from->count);
  if (from->element_bytes == 8) {
    if (from->count)
      std::memcpy(offsets.data(), from->data, from->count * 8);
  } else {
    for (size_t i = 0; i < from->count; ++i) {
      int32_t narrow = 0;
      std::memcpy(&narrow, static_cast<const char *>(from->data) + 4 * i, 4);
      offsets[i] = narrow;
    }
  }
  std::optional<int64_t> longest;
  if (from->max_length)
    longest = from->max_length;
  if (Error error = schedule::validateOffsets(
          offsets, offsets.empty() ? 0 : offsets.back(), longest))
    return makeError(ErrorCode::InvalidArgument, toString(std::move(error)));
  return Offsets{std::move(offsets), std::nullopt};
}

/// The workspace of a forward or a backward.
using LayoutQuery = Expected<WorkspaceLayout>(const AttentionConfig &,
                                              const Offsets &);

Expected<WorkspaceLayout> forwardLayout(const AttentionConfig &config,
                                        const Offsets &offsets) {
  return offsets.device ? queryDeviceWorkspace(config, *offsets.device)
                        : queryWorkspace(config, offsets.host);
}

Expected<WorkspaceLayout> backwardLayout(const AttentionConfig &config,
                                         const Offsets &offsets) {
  return offsets.device ? queryDeviceBackwardWorkspace(config, *offsets.device)
                        : queryBackwardWorkspace(config, offsets.host);
}

Expected<WorkspaceLayout> layoutOf(LayoutQuery &query,
                                   const flamia_attention_config *config,
                                   const flamia_offsets *offsets) {
  if (!config)
    return isNull("config");
  Expected<Offsets> checked = offsetsOf(offsets);
  if (!checked)
    return checked.takeError();
  Expected<AttentionConfig> converted = configOf(*config);
  if (!converted)
    return converted.takeError();
  return query(*converted, *checked);
}

/// A copy of a name that lives as long as the process.
const char *permanent(StringRef text) {
  static std::mutex mutex;
  static std::set<std::string> texts;
  std::lock_guard<std::mutex> lock(mutex);
  return texts.insert(text.str()).first->c_str();
}

flamia_status workspaceSize(LayoutQuery &query,
                            const flamia_attention_config *config,
                            const flamia_offsets *offsets, uint64_t *bytes) {
  if (!bytes)
    return finish(isNull("bytes"));
  Expected<WorkspaceLayout> layout = layoutOf(query, config, offsets);
  if (!layout)
    return finish(layout.takeError());
  *bytes = layout->bytes;
  return FLAMIA_OK;
}

flamia_status workspaceTensor(LayoutQuery &query,
                              const flamia_attention_config *config,
                              const flamia_offsets *offsets, size_t index,
                              flamia_tensor_info *info) {
  if (!info)
    return finish(isNull("info"));
  Expected<WorkspaceLayout> layout = layoutOf(query, config, offsets);
  if (!layout)
    return finish(layout.takeError());
  if (index >= layout->tensors.size())
    return finish(
        makeError(ErrorCode::NotFound,
                  "the workspace has " + Twine(layout->tensors.size()) +
                      " tensors, there is no number " + Twine(index)));
  const WorkspaceTensor &tensor = layout->tensors[index];
  *info = {};
  info->name = permanent(tensor.name);
  info->element = permanent(nameOf(tensor.element));
  info->rank = int32_t(tensor.extents.size());
  for (size_t d = 0; d < tensor.extents.size(); ++d)
    info->extents[d] = tensor.extents[d];
  info->offset = tensor.offset;
  info->bytes = tensor.bytes;
  info->saved = tensor.saved;
  return FLAMIA_OK;
}

/// Kernels of a checked configuration; `create` makes them from a library.
template <typename Handle, typename Create>
flamia_status createKernels(flamia_device *device, const char *kernelFolder,
                            const flamia_attention_config *config,
                            const char *handleName, Handle **handle,
                            Create create) {
  if (!device || !kernelFolder || !config || !handle)
    return finish(isNull(!device         ? "device"
                         : !kernelFolder ? "kernel_folder"
                         : !config       ? "config"
                                         : handleName));
  // A bad configuration is reported before the folder is looked at.
  Expected<AttentionConfig> checked = configOf(*config);
  if (!checked)
    return finish(checked.takeError());
  if (Error error = checkConfig(*checked))
    return finish(std::move(error));
  Expected<KernelLibrary> library = KernelLibrary::open(kernelFolder);
  if (!library)
    return finish(library.takeError());
  return give(create(*device->device, *library, *checked), handle);
}

TokenStrides stridesOf(const uint64_t (&strides)[2]) {
  return {strides[0], strides[1]};
}

ForwardTensors tensorsOf(const flamia_forward_tensors &from) {
  ForwardTensors tensors;
  tensors.q = from.q;
  tensors.k = from.k;
  tensors.v = from.v;
  tensors.o = from.o;
  tensors.lse = from.lse;
  tensors.workspace = from.workspace;
  tensors.workspaceBytes = from.workspace_bytes;
  tensors.qStrides = stridesOf(from.q_strides);
  tensors.kStrides = stridesOf(from.k_strides);
  tensors.vStrides = stridesOf(from.v_strides);
  return tensors;
}

BackwardTensors tensorsOf(const flamia_backward_tensors &from) {
  BackwardTensors tensors;
  tensors.forward = tensorsOf(from.forward);
  tensors.dO = from.d_o;
  tensors.dLse = from.d_lse;
  tensors.dQ = from.d_q;
  tensors.dK = from.d_k;
  tensors.dV = from.d_v;
  tensors.workspace = from.workspace;
  tensors.workspaceBytes = from.workspace_bytes;
  tensors.dOStrides = stridesOf(from.d_o_strides);
  tensors.dQStrides = stridesOf(from.d_q_strides);
  tensors.dKStrides = stridesOf(from.d_k_strides);
  tensors.dVStrides = stridesOf(from.d_v_strides);
  return tensors;
}

/// A plan of kernels for offsets on the host or on the device.
template <typename Kernels, typename Tensors, typename Handle>
flamia_status preparePlan(Kernels *kernels, const char *handleName,
                          const flamia_offsets *offsets, const Tensors *tensors,
                          Handle **plan) {
  if (!kernels || !tensors || !plan)
    return finish(isNull(!kernels   ? handleName
                         : !tensors ? "tensors"
                                    : "plan"));
  Expected<Offsets> checked = offsetsOf(offsets);
  if (!checked)
    return finish(checked.takeError());
  if (checked->device)
    return give(
        kernels->prepareFromDevice(*checked->device, tensorsOf(*tensors)),
        plan);
  return give(kernels->prepare(checked->host, tensorsOf(*tensors)), plan);
}

} // namespace

const char *flamia_last_error(void) { return lastError.c_str(); }

flamia_status flamia_device_create_simulator(flamia_device **device) {
  if (!device)
    return finish(isNull("device"));
  *device = new flamia_device{createSimDevice(sim::SimOptions())};
  return FLAMIA_OK;
}

flamia_status flamia_device_create_cuda(int ordinal, flamia_device **device) {
  if (!device)
    return finish(isNull("device"));
  return give(createCudaDevice(ordinal), device);
}

void flamia_device_destroy(flamia_device *device) { delete device; }

flamia_status flamia_device_allocate(flamia_device *device, const char *name,
                                     uint64_t bytes, uint64_t *address) {
  if (!device || !address)
    return finish(isNull(device ? "address" : "device"));
  Expected<uint64_t> result =
      device->device->allocate(name ? name : "buffer", bytes);
  if (!result)
    return finish(result.takeError());
  *address = *result;
  return FLAMIA_OK;
}

flamia_status flamia_device_release(flamia_device *device, uint64_t address) {
  return finish(device ? device->device->release(address) : isNull("device"));
}

flamia_status flamia_device_upload(flamia_device *device, uint64_t address,
                                   const void *data, uint64_t bytes) {
  if (!device || (!data && bytes))
    return finish(isNull(device ? "data" : "device"));
  return finish(device->device->upload(address, data, bytes));
}

flamia_status flamia_device_download(flamia_device *device, void *data,
                                     uint64_t address, uint64_t bytes) {
  if (!device || (!data && bytes))
    return finish(isNull(device ? "data" : "device"));
  return finish(device->device->download(data, address, bytes));
}

flamia_status flamia_device_synchronize(flamia_device *device, void *stream) {
  return finish(device ? device->device->synchronize(stream)
                       : isNull("device"));
}

void flamia_attention_config_init(flamia_attention_config *config) {
  if (!config)
    return;
  AttentionConfig defaults;
  *config = {};
  config->heads = defaults.heads;
  config->kv_heads = defaults.kvHeads;
  config->head_dim = defaults.headDim;
  config->causal = defaults.causal;
  config->use_default_scale = 1;
  config->format = FLAMIA_FORMAT_MXFP8;
  config->q_global_scale = defaults.qGlobalScale;
  config->k_global_scale = defaults.kGlobalScale;
}

flamia_status
flamia_attention_workspace_size(const flamia_attention_config *config,
                                const flamia_offsets *offsets,
                                uint64_t *bytes) {
  return workspaceSize(forwardLayout, config, offsets, bytes);
}

flamia_status
flamia_attention_workspace_tensor(const flamia_attention_config *config,
                                  const flamia_offsets *offsets, size_t index,
                                  flamia_tensor_info *info) {
  return workspaceTensor(forwardLayout, config, offsets, index, info);
}

const char *flamia_attention_saved_tensor(size_t index) {
  return flamia_attention_saved_tensor_of(FLAMIA_FORMAT_MXFP8, index);
}

const char *flamia_attention_saved_tensor_of(flamia_format format,
                                             size_t index) {
  Expected<Format> known = formatOf(format);
  if (!known) {
    finish(known.takeError());
    return nullptr;
  }
  std::vector<std::string> names = savedForBackward(*known);
  return index < names.size() ? permanent(names[index]) : nullptr;
}

flamia_status flamia_attention_create(flamia_device *device,
                                      const char *kernel_folder,
                                      const flamia_attention_config *config,
                                      flamia_attention **attention) {
  return createKernels(device, kernel_folder, config, "attention", attention,
                       AttentionForward::create);
}

void flamia_attention_destroy(flamia_attention *attention) { delete attention; }

flamia_status flamia_attention_set_global_scales(flamia_attention *attention,
                                                 float q_global_scale,
                                                 float k_global_scale) {
  return finish(attention ? attention->forward->setGlobalScales(q_global_scale,
                                                                k_global_scale)
                          : isNull("attention"));
}

flamia_status flamia_attention_prepare(flamia_attention *attention,
                                       const flamia_offsets *offsets,
                                       const flamia_forward_tensors *tensors,
                                       flamia_forward_plan **plan) {
  return preparePlan(attention ? attention->forward.get() : nullptr,
                     "attention", offsets, tensors, plan);
}

void flamia_forward_plan_destroy(flamia_forward_plan *plan) { delete plan; }

flamia_status flamia_forward_launch(flamia_forward_plan *plan, void *stream) {
  return finish(plan ? plan->plan->launch(stream) : isNull("plan"));
}

flamia_status
flamia_backward_workspace_size(const flamia_attention_config *config,
                               const flamia_offsets *offsets, uint64_t *bytes) {
  return workspaceSize(backwardLayout, config, offsets, bytes);
}

flamia_status
flamia_backward_workspace_tensor(const flamia_attention_config *config,
                                 const flamia_offsets *offsets, size_t index,
                                 flamia_tensor_info *info) {
  return workspaceTensor(backwardLayout, config, offsets, index, info);
}

flamia_status flamia_backward_create(flamia_device *device,
                                     const char *kernel_folder,
                                     const flamia_attention_config *config,
                                     int32_t with_d_lse,
                                     flamia_backward **backward) {
  return createKernels(device, kernel_folder, config, "backward", backward,
                       [&](Device &target, const KernelLibrary &library,
                           const AttentionConfig &checked) {
                         return AttentionBackward::create(
                             target, library, checked, with_d_lse != 0);
                       });
}

void flamia_backward_destroy(flamia_backward *backward) { delete backward; }

flamia_status flamia_backward_set_global_scales(flamia_backward *backward,
                                                float q_global_scale,
                                                float k_global_scale) {
  return finish(backward ? backward->backward->setGlobalScales(q_global_scale,
                                                               k_global_scale)
                         : isNull("backward"));
}

flamia_status flamia_backward_prepare(flamia_backward *backward,
                                      const flamia_offsets *offsets,
                                      const flamia_backward_tensors *tensors,
                                      flamia_backward_plan **plan) {
  return preparePlan(backward ? backward->backward.get() : nullptr, "backward",
                     offsets, tensors, plan);
}

void flamia_backward_plan_destroy(flamia_backward_plan *plan) { delete plan; }

flamia_status flamia_backward_launch(flamia_backward_plan *plan, void *stream) {
  return finish(plan ? plan->plan->launch(stream) : isNull("plan"));
}
