//===- PlanBuilder.cpp - From named tensors to launches -------------------===//
//
// Checks of memory and the arguments of steps.
//
//===----------------------------------------------------------------------===//

#include "lib/Runtime/PlanBuilder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

/// Of a workspace.
static constexpr uint64_t workspaceAlignment = 256;

Error runtime::invalidArgument(const Twine &message) {
  return makeError(ErrorCode::InvalidArgument, message);
}

Expected<const LaunchRecord *>
runtime::findKernel(const KernelLibrary &library, const AttentionConfig &config,
                    StringRef name,
                    const KernelLibrary::Parameters &parameters) {
  for (int64_t slots : {2, 1}) {
    if (config.heads / config.kvHeads % slots)
      continue;
    KernelLibrary::Parameters wanted = parameters;
    wanted.push_back({"slots", std::to_string(slots)});
    Expected<const LaunchRecord *> record =
        library.find(name, config.arch, wanted);
    if (record)
      return record;
    consumeError(record.takeError());
  }
  return library.find(name, config.arch, parameters);
}

Error runtime::loadKernel(Device &device, const KernelLibrary &library,
                          const AttentionConfig &config, StringRef name,
                          const KernelLibrary::Parameters &parameters,
                          std::unique_ptr<Kernel> &kernel) {
  Expected<const LaunchRecord *> record =
      findKernel(library, config, name, parameters);
  if (!record)
    return record.takeError();
  Expected<std::unique_ptr<Kernel>> loaded = device.load(**record);
  if (!loaded)
    return loaded.takeError();
  kernel = std::move(*loaded);
  return Error::success();
}

void PlanBuilder::add(Argument argument, Access access, bool inWorkspace) {
  entries.push_back({std::move(argument), access, inWorkspace});
}

void PlanBuilder::addBf16(StringRef name, uint64_t address, int64_t heads,
                          Access access, TokenStrides strides) {
  uint64_t extents[] = {tokens, uint64_t(heads), uint64_t(config.headDim)};
  Argument argument =
      Argument::tensor(name, address, Element::BF16, extents,
                       extents[0] * extents[1] * extents[2] * 2);
  if (strides.given()) {
    argument.strides = {strides.token, strides.head, 1};
    // From the first byte to the last; strides out of range are refused by the
    // kernels.
    if (tokens)
      argument.bytes = 2 * ((tokens - 1) * strides.token +
                            (extents[1] - 1) * strides.head + extents[2]);
  }
  add(std::move(argument), access);
}

void PlanBuilder::addOffsets(const DeviceOffsets &offsets) {
  uint64_t count = uint64_t(offsets.documents) + 1;
  add(Argument::tensor("cu_seqlens", offsets.address, Element::I32, {count},
                       count * 4),
      Access::Read);
}

void PlanBuilder::addVector(StringRef name, uint64_t address, Access access) {
  uint64_t extents[] = {tokens, uint64_t(config.heads)};
  add(Argument::tensor(name, address, Element::F32, extents,
                       extents[0] * extents[1] * 4),
      access);
}

Error PlanBuilder::addWorkspace(const Twine &what,
                                const WorkspaceLayout &layout, uint64_t address,
                                uint64_t bytes, ArrayRef<uint64_t> pieces,
                                Access access) {
  if (!pieces.empty() && pieces.size() != layout.tensors.size())
    return invalidArgument(what + " has " + Twine(pieces.size()) +
                           " addresses, expected " +
                           Twine(layout.tensors.size()));
  if (pieces.empty() && bytes < layout.bytes)
    return invalidArgument(what + " has " + Twine(bytes) + " bytes, expected " +
                           Twine(layout.bytes));
  if (pieces.empty() && address % workspaceAlignment)
    return invalidArgument(
        what + formatv(" is at address {0:x}, which is not a multiple of {1}",
                       address, workspaceAlignment)
                   .str());
  for (auto [index, tensor] : enumerate(layout.tensors)) {
    if (access == Access::Read && !tensor.saved)
      continue;
    add(Argument::tensor(tensor.name,
                         pieces.empty() ? address + tensor.offset
                                        : pieces[index],
                         tensor.element, tensor.extents, tensor.bytes),
        access, /*inWorkspace=*/true);
  }
  return Error::success();
}

const PlanBuilder::Entry *PlanBuilder::find(StringRef name) const {
  for (const Entry &entry : entries)
    if (entry.argument.name == name)
      return &entry;
  return nullptr;
}

std::optional<double> PlanBuilder::number(StringRef name) const {
  if (name == "tokens")
    return double(tokens);
  if (name == "causal")
    return config.causal;
  if (name == "sms")
    return double(sms);
  if (name == "kv_heads")
    return double(config.kvHeads);
  if (name == "softmax_scale")
    return config.scale();
  if (config.format == Format::Mxfp8)
    return std::nullopt;
  if (name == "q_global_scale")
    return config.qGlobalScale;
  if (name == "k_global_scale")
    return config.kGlobalScale;
  return std::nullopt;
}

const Argument &PlanBuilder::tensor(StringRef name) const {
  const Entry *entry = find(name);
  assert(entry && "no tensor of this name was added");
  return entry->argument;
}

GridChoice PlanBuilder::gridChoice(const Kernel &kernel,
                                   schedule::Kernel kind) const {
  schedule::Heads heads = {config.heads, config.kvHeads, config.headDim};
  auto items = int64_t(tensor("work").extents[0]);
  GridChoice choice;
  if (kernel.record().grid[2].isAny)
    choice.z = uint32_t(schedule::headParts(kind, heads, items));
  if (kernel.record().groupsY)
    choice.yGroups =
        uint32_t(schedule::headGroups(kind, heads, int64_t(tokens), items));
  return choice;
}

/// Whether two tensors whose ranges overlap have no byte in common, because
/// their tokens are equally far apart and the heads of each token lie side by
/// side: Q, K and V in [tokens, 3, heads, head_dim] or [tokens, heads, 3,
/// head_dim].
static bool areInterleaved(const Argument &one, const Argument &other) {
  if (one.element != Element::BF16 || other.element != Element::BF16)
    return false;
  struct Bytes {
    uint64_t token, head, row, span; ///< span: of all heads of a token
  };
  auto bytesOf = [](const Argument &argument) {
    uint64_t row = 2 * argument.extents[2], heads = argument.extents[1];
    if (argument.strides.empty())
      return Bytes{heads * row, row, row, heads * row};
    uint64_t head = 2 * argument.strides[1];
    return Bytes{2 * argument.strides[0], head, row, (heads - 1) * head + row};
  };
  const Bytes a = bytesOf(one), b = bytesOf(other);
  uint64_t period = a.token;
  if (b.token != period || a.span > period || b.span > period)
    return false;
  // A token of `b` lies between two of `a`: `ahead` after the one (modulo the
  // period, also where it is before), `behind` before the next.
  uint64_t ahead =
      one.address <= other.address
          ? (other.address - one.address) % period
          : period - 1 - (one.address - other.address - 1) % period;
  uint64_t behind = period - ahead;
  auto headsAreApart = [&](uint64_t distance) {
    uint64_t shift = a.head == b.head && a.head ? distance % a.head : 0;
    return shift >= a.row && a.head - shift >= a.row;
  };
  return (ahead >= a.span || headsAreApart(ahead)) &&
         (behind >= b.span || headsAreApart(behind));
}

Error PlanBuilder::checkOverlaps() const {
  for (size_t a = 0; a < entries.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      const Argument &one = entries[a].argument, &other = entries[b].argument;
      bool written = entries[a].access != Access::Read ||
                     entries[b].access != Access::Read;
      // Differences, since a sum may pass the end of the address space.
      bool apart = one.address >= other.address
                       ? one.address - other.address >= other.bytes
                       : other.address - one.address >= one.bytes;
      if (written && !apart && one.bytes && other.bytes &&
          !areInterleaved(one, other))
        return invalidArgument(
            formatv("'{0}' ({1} bytes at {2:x}) overlaps '{3}' ({4} bytes at "
                    "{5:x})",
                    one.name, one.bytes, one.address, other.name, other.bytes,
                    other.address)
                .str());
    }
  return Error::success();
}

Error PlanBuilder::addStep(LaunchPlan &plan, StringRef name, Kernel &kernel,
                           const Renamed &renamed,
                           const GridChoice &choice) const {
  LaunchPlan::Step step;
  step.name = name.str();
  step.kernel = &kernel;
  for (const RecordArgument &declared : kernel.record().arguments) {
    StringRef tensor = declared.name;
    for (auto [argument, replacement] : renamed)
      if (argument == tensor) {
        tensor = replacement;
        break;
      }
    if (std::optional<double> value = number(tensor);
        value && !declared.isTensor) {
      step.arguments.push_back(Argument::number(tensor, *value));
      continue;
    }
    const Entry *entry = find(tensor);
    if (!entry || !declared.isTensor)
      return invalidArgument("kernel '" + kernel.record().kernel +
                             "' has an argument '" + declared.name +
                             "', which this version does not know");
    if (declared.access != Access::Read && entry->access == Access::Read)
      return invalidArgument("kernel '" + kernel.record().kernel +
                             "' writes its argument '" + declared.name +
                             "', which is an input");
    if (declared.inWorkspace && !entry->inWorkspace)
      return invalidArgument("kernel '" + kernel.record().kernel +
                             "' has its argument '" + declared.name +
                             "' in the workspace, which is a tensor of the "
                             "caller in this version");
    step.arguments.push_back(entry->argument);
    step.arguments.back().name = declared.name;
    if (tensor != declared.name)
      step.arguments.back().callersName = tensor.str();
  }
  Expected<std::unique_ptr<PreparedLaunch>> prepared =
      kernel.prepare(step.arguments, choice);
  if (!prepared)
    return prepared.takeError();
  step.prepared = std::move(*prepared);
  plan.launches.push_back(std::move(step));
  return Error::success();
}
