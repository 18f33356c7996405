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

AttentionConfig configOf(const flamia_attention_config &from) {
  AttentionConfig config;
  config.heads = from.heads;
  config.kvHeads = from.kv_heads;
  config.headDim = from.head_dim;
  config.causal = from.causal != 0;
  if (!from.use_default_scale)
    config.softmaxScale = from.softmax_scale;
  config.arch = from.arch ? from.arch : "";
  return config;
}

/// Offsets as int64, checked.
Expected<std::vector<int64_t>> offsetsOf(const flamia_offsets *from) {
  if (!from)
    return isNull("offsets");
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
  return offsets;
}

Expected<WorkspaceLayout> layoutOf(const flamia_attention_config *config,
                                   const flamia_offsets *offsets) {
  if (!config)
    return isNull("config");
  Expected<std::vector<int64_t>> checked = offsetsOf(offsets);
  if (!checked)
    return checked.takeError();
  return queryWorkspace(configOf(*config), *checked);
}

/// A copy of a name that lives as long as the process.
const char *permanent(StringRef text) {
  static std::mutex mutex;
  static std::set<std::string> texts;
  std::lock_guard<std::mutex> lock(mutex);
  return texts.insert(text.str()).first->c_str();
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
}

flamia_status
flamia_attention_workspace_size(const flamia_attention_config *config,
                                const flamia_offsets *offsets,
                                uint64_t *bytes) {
  if (!bytes)
    return finish(isNull("bytes"));
  Expected<WorkspaceLayout> layout = layoutOf(config, offsets);
  if (!layout)
    return finish(layout.takeError());
  *bytes = layout->bytes;
  return FLAMIA_OK;
}

flamia_status
flamia_attention_workspace_tensor(const flamia_attention_config *config,
                                  const flamia_offsets *offsets, size_t index,
                                  flamia_tensor_info *info) {
  if (!info)
    return finish(isNull("info"));
  Expected<WorkspaceLayout> layout = layoutOf(config, offsets);
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

const char *flamia_attention_saved_tensor(size_t index) {
  std::vector<std::string> names = savedForBackward();
  return index < names.size() ? permanent(names[index]) : nullptr;
}

flamia_status flamia_attention_create(flamia_device *device,
                                      const char *kernel_folder,
                                      const flamia_attention_config *config,
                                      flamia_attention **attention) {
  if (!device || !kernel_folder || !config || !attention)
    return finish(isNull(!device          ? "device"
                         : !kernel_folder ? "kernel_folder"
                         : !config        ? "config"
                                          : "attention"));
  // A bad configuration is reported before the folder is looked at.
  AttentionConfig checked = configOf(*config);
  if (Error error = checkConfig(checked))
    return finish(std::move(error));
  Expected<KernelLibrary> library = KernelLibrary::open(kernel_folder);
  if (!library)
    return finish(library.takeError());
  return give(AttentionForward::create(*device->device, *library, checked),
              attention);
}

void flamia_attention_destroy(flamia_attention *attention) { delete attention; }

flamia_status flamia_attention_prepare(flamia_attention *attention,
                                       const flamia_offsets *offsets,
                                       const flamia_forward_tensors *tensors,
                                       flamia_forward_plan **plan) {
  if (!attention || !tensors || !plan)
    return finish(isNull(!attention ? "attention"
                         : !tensors ? "tensors"
                                    : "plan"));
  Expected<std::vector<int64_t>> checked = offsetsOf(offsets);
  if (!checked)
    return finish(checked.takeError());
  ForwardTensors addresses;
  addresses.q = tensors->q;
  addresses.k = tensors->k;
  addresses.v = tensors->v;
  addresses.o = tensors->o;
  addresses.lse = tensors->lse;
  addresses.workspace = tensors->workspace;
  addresses.workspaceBytes = tensors->workspace_bytes;
  return give(attention->forward->prepare(*checked, addresses), plan);
}

void flamia_forward_plan_destroy(flamia_forward_plan *plan) { delete plan; }

flamia_status flamia_forward_launch(flamia_forward_plan *plan, void *stream) {
  return finish(plan ? plan->plan->launch(stream) : isNull("plan"));
}
