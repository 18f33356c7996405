//===- Evaluate.cpp - Launches kernels on the evaluator -------------------===//

#include "Machine.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::evaluator;

static llvm::Error error(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// Checks one argument against the kernel's type for it.
static llvm::Error checkArgument(StringRef name, Type type,
                                 const Argument &argument) {
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref) {
    if (!argument.isScalar)
      return error("argument '" + name + "': expected a number");
    return llvm::Error::success();
  }
  if (argument.isScalar)
    return error("argument '" + name +
                 "': expected a tensor, but got a number");
  const Buffer &buffer = argument.buffer;
  if (int64_t(buffer.shape.size()) != memref.getRank())
    return error("argument '" + name + "': expected " +
                 Twine(memref.getRank()) + " dimensions, but got " +
                 Twine(buffer.shape.size()));
  int64_t elements = 1;
  for (auto [dim, extent] : llvm::enumerate(buffer.shape)) {
    if (!memref.isDynamicDim(dim) && memref.getDimSize(dim) != extent)
      return error("argument '" + name + "': expected extent " +
                   Twine(memref.getDimSize(dim)) + " in dimension " +
                   Twine(dim) + ", but got " + Twine(extent));
    elements *= extent;
  }
  if (memref.getElementTypeBitWidth() < 8 && buffer.shape.back() % 2 != 0)
    return error("argument '" + name + "': expected an even last extent, but " +
                 "got " + Twine(buffer.shape.back()));
  int64_t bytes = elements * memref.getElementTypeBitWidth() / 8;
  if (int64_t(buffer.bytes.size()) != bytes)
    return error("argument '" + name + "': expected " + Twine(bytes) +
                 " bytes, but got " + Twine(buffer.bytes.size()));
  return llvm::Error::success();
}

static llvm::Error checkArguments(KernelOp kernel, const Arguments &arguments) {
  llvm::StringMap<std::pair<int64_t, std::string>> named;
  for (BlockArgument arg : kernel.getBody().getArguments()) {
    StringRef name = kernel.getArgName(arg.getArgNumber());
    auto argument = arguments.find(name);
    if (argument == arguments.end())
      return error("argument '" + name + "' is missing");
    if (llvm::Error fault =
            checkArgument(name, arg.getType(), argument->second))
      return fault;
    if (!kernel.getArgAttrsAttr())
      continue;
    auto dims =
        cast<DictionaryAttr>(kernel.getArgAttrsAttr()[arg.getArgNumber()])
            .getAs<ArrayAttr>("flamia.dims");
    if (!dims)
      continue;
    for (auto [attr, extent] : llvm::zip(dims, argument->second.buffer.shape)) {
      StringRef dim = cast<StringAttr>(attr).getValue();
      auto [place, isNew] =
          named.try_emplace(dim, std::pair(extent, name.str()));
      if (!isNew && place->second.first != extent)
        return error("dimension '" + dim + "' is " +
                     Twine(place->second.first) + " in argument '" +
                     place->second.second + "', but " + Twine(extent) +
                     " in '" + name + "'");
    }
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<int64_t>>
evaluator::gridOf(KernelOp kernel, const Arguments &arguments) {
  std::vector<int64_t> grid;
  for (Attribute term : kernel.getGrid()) {
    if (auto extent = dyn_cast<IntegerAttr>(term)) {
      grid.push_back(extent.getInt());
      continue;
    }
    if (isa<UnitAttr>(term)) {
      grid.push_back(1);
      continue;
    }
    auto parts = cast<ArrayAttr>(term);
    StringRef name = cast<StringAttr>(parts[0]).getValue();
    int64_t dim = cast<IntegerAttr>(parts[1]).getInt();
    int64_t tile = cast<IntegerAttr>(parts[2]).getInt();
    auto argument = arguments.find(name);
    if (argument == arguments.end() ||
        dim >= int64_t(argument->second.buffer.shape.size()))
      return error("argument '" + name + "' is missing");
    grid.push_back((argument->second.buffer.shape[dim] + tile - 1) / tile);
  }
  grid.resize(3, 1);
  return grid;
}

llvm::Error evaluator::evaluate(KernelOp kernel, Arguments &arguments) {
  if (llvm::Error fault = checkArguments(kernel, arguments))
    return fault;
  llvm::Expected<std::vector<int64_t>> grid = gridOf(kernel, arguments);
  if (!grid)
    return grid.takeError();
  // Faults inside the kernel are diagnostics at an op; the last one becomes
  // the error.
  std::string fault;
  ScopedDiagnosticHandler handler(
      kernel.getContext(), [&](Diagnostic &diagnostic) {
        llvm::raw_string_ostream(fault)
            << diagnostic.getLocation() << ": " << diagnostic;
        return success();
      });
  Machine machine(kernel, arguments);
  for (int64_t z = 0; z < (*grid)[2]; ++z)
    for (int64_t y = 0; y < (*grid)[1]; ++y)
      for (int64_t x = 0; x < (*grid)[0]; ++x)
        if (failed(machine.runWorkItem({x, y, z})))
          return error(fault);
  return llvm::Error::success();
}
