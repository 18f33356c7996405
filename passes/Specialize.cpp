//===- Specialize.cpp - Bind compile-time parameters and extents ----------===//
//
// Four steps for each kernel: choose a value for every parameter, find the
// extents that follow (Extents.h), fold, remove the arguments that exist only
// with other values.
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Flamia.h"
#include "passes/Extents.h"
#include "passes/Passes.h"

#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace flamia {
#define GEN_PASS_DEF_SPECIALIZEPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// A parameter value as a user writes it.
static std::string spell(Attribute value) {
  if (auto boolean = dyn_cast<BoolAttr>(value))
    return boolean.getValue() ? "true" : "false";
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return std::to_string(integer.getInt());
  return cast<StringAttr>(value).getValue().str();
}

/// All values of a parameter; one that is bound already has a single value.
static ArrayRef<Attribute> valuesOf(const NamedAttribute &parameter,
                                    Attribute &storage) {
  if (auto list = dyn_cast<ArrayAttr>(parameter.getValue()))
    return list.getValue();
  storage = parameter.getValue();
  return storage;
}

using Bindings = llvm::MapVector<StringRef, StringRef>;

static FailureOr<Bindings> parseBindings(StringRef text, Operation *module) {
  Bindings bindings;
  for (StringRef item : llvm::split(text, ',')) {
    item = item.trim();
    if (item.empty())
      continue;
    auto [name, value] = item.split('=');
    if (name.empty() || value.empty() || !item.contains('='))
      return emitError(module->getLoc(), "expected name=value, but got '")
             << item << "'";
    auto [place, isNew] = bindings.insert({name, value});
    if (!isNew && place->second != value)
      return emitError(module->getLoc(), "parameter '")
             << name << "' is bound to both " << place->second << " and "
             << value;
  }
  return bindings;
}

/// Replaces the parameter lists of \p kernel by the values chosen.
static LogicalResult bindParameters(KernelOp kernel, const Bindings &bindings) {
  SmallVector<NamedAttribute> bound;
  for (const NamedAttribute &parameter : kernel.getParameters()) {
    Attribute storage;
    ArrayRef<Attribute> values = valuesOf(parameter, storage);
    Attribute chosen = values.front();
    auto binding = bindings.find(parameter.getName().getValue());
    if (binding != bindings.end()) {
      const Attribute *match = llvm::find_if(values, [&](Attribute value) {
        return spell(value) == binding->second;
      });
      if (match == values.end()) {
        InFlightDiagnostic diagnostic =
            emitError(kernel.getLoc(), "parameter '")
            << binding->first << "' of @" << kernel.getSymName()
            << " cannot be " << binding->second << "; it may be ";
        llvm::interleave(
            values, [&](Attribute value) { diagnostic << spell(value); },
            [&] { diagnostic << " or "; });
        return diagnostic;
      }
      chosen = *match;
    }
    bound.emplace_back(parameter.getName(), chosen);
  }
  kernel.setParametersAttr(DictionaryAttr::get(kernel.getContext(), bound));
  return success();
}

/// The constant that a `flamia.param` stands for.
static LogicalResult replaceParam(ParamOp op, DictionaryAttr parameters) {
  Attribute value = parameters.get(op.getName());
  if (!value) {
    InFlightDiagnostic diagnostic =
        op.emitError("kernel declares no parameter '")
        << op.getName() << "'; there are: ";
    llvm::interleaveComma(parameters, diagnostic, [&](NamedAttribute known) {
      diagnostic << known.getName().getValue();
    });
    return diagnostic;
  }
  OpBuilder builder(op);
  Type type = op.getType();
  TypedAttr constant;
  if (op.getIs()) {
    if (!isa<StringAttr>(value))
      return op.emitError("expected a parameter whose values are strings for "
                          "'is', but '")
             << op.getName() << "' is " << value;
    constant = builder.getBoolAttr(spell(value) == *op.getIs());
  } else if (auto boolean = dyn_cast<BoolAttr>(value)) {
    constant = boolean;
  } else if (auto integer = dyn_cast<IntegerAttr>(value)) {
    if (!type.isInteger(1))
      constant = builder.getIntegerAttr(type, integer.getInt());
  }
  if (!constant || constant.getType() != type)
    return op.emitError("parameter '")
           << op.getName() << "' is " << value << ", which is no " << type;
  op.replaceAllUsesWith(
      arith::ConstantOp::create(builder, op.getLoc(), constant).getResult());
  op.erase();
  return success();
}

/// `"<= if causal"` becomes `"<="` or `"any"`.
static LogicalResult bindDepends(KernelOp kernel) {
  if (!kernel.getArgAttrsAttr())
    return success();
  MLIRContext *context = kernel.getContext();
  SmallVector<Attribute> args;
  for (Attribute attr : kernel.getArgAttrsAttr()) {
    NamedAttrList attributes(cast<DictionaryAttr>(attr));
    if (auto depends = dyn_cast_or_null<DictionaryAttr>(
            attributes.get("flamia.depends"))) {
      NamedAttrList bound;
      for (NamedAttribute entry : depends) {
        auto [direction, parameter] =
            cast<StringAttr>(entry.getValue()).getValue().split(" if ");
        if (!parameter.empty()) {
          auto value =
              dyn_cast_or_null<BoolAttr>(kernel.getParameters().get(parameter));
          if (!value)
            return emitError(kernel.getLoc(), "'flamia.depends' names '")
                   << parameter << "', which is no boolean parameter";
          if (!value.getValue())
            direction = "any";
        }
        bound.set(entry.getName(), StringAttr::get(context, direction));
      }
      attributes.set("flamia.depends", bound.getDictionary(context));
    }
    args.push_back(attributes.getDictionary(context));
  }
  kernel.setArgAttrsAttr(ArrayAttr::get(context, args));
  return success();
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// A condition in `flamia.only` that does not hold, or null.
static StringAttr failedCondition(KernelOp kernel, DictionaryAttr only) {
  for (NamedAttribute entry : only)
    if (kernel.getParameters().get(entry.getName()) != entry.getValue())
      return entry.getName();
  return {};
}

/// Removes the arguments whose `flamia.only` does not hold, and the attribute
/// from all others. Nothing may use them: code for other values is gone.
static LogicalResult dropArguments(KernelOp kernel) {
  if (!kernel.getArgAttrsAttr())
    return success();
  MLIRContext *context = kernel.getContext();
  Block &body = kernel.getBody().front();
  llvm::BitVector dropped(body.getNumArguments());
  llvm::StringSet<> droppedNames;
  for (BlockArgument arg : body.getArguments()) {
    unsigned index = arg.getArgNumber();
    auto only = kernel.getArgAttrOfType<DictionaryAttr>(index, "flamia.only");
    StringAttr condition = only ? failedCondition(kernel, only) : StringAttr();
    if (!condition)
      continue;
    StringRef name = kernel.getArgName(index);
    auto explain = [&](InFlightDiagnostic diagnostic) -> LogicalResult {
      return diagnostic << "argument '" << name << "', which exists only with "
                        << condition.getValue() << "="
                        << spell(only.get(condition)) << ", but it is "
                        << spell(kernel.getParameters().get(condition));
    };
    if (!arg.use_empty())
      return explain((*arg.user_begin())->emitError("uses "));
    for (Attribute term : kernel.getGrid())
      if (auto parts = dyn_cast<ArrayAttr>(term);
          parts && cast<StringAttr>(parts[0]).getValue() == name)
        return explain(emitError(kernel.getLoc(), "the grid names "));
    dropped.set(index);
    droppedNames.insert(name);
  }

  SmallVector<Attribute> names, attrs;
  for (unsigned index = 0; index < dropped.size(); ++index) {
    if (dropped[index])
      continue;
    names.push_back(kernel.getArgNames()[index]);
    NamedAttrList kept(cast<DictionaryAttr>(kernel.getArgAttrsAttr()[index]));
    kept.erase("flamia.only");
    if (auto depends =
            dyn_cast_or_null<DictionaryAttr>(kept.get("flamia.depends"))) {
      NamedAttrList entries(depends);
      for (NamedAttribute entry : depends)
        if (droppedNames.contains(entry.getName()))
          entries.erase(entry.getName());
      kept.set("flamia.depends", entries.getDictionary(context));
    }
    attrs.push_back(kept.getDictionary(context));
  }
  body.eraseArguments(dropped);
  kernel.setArgNamesAttr(ArrayAttr::get(context, names));
  kernel.setArgAttrsAttr(ArrayAttr::get(context, attrs));
  kernel.setFunctionType(
      FunctionType::get(context, body.getArgumentTypes(), {}));
  return success();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
class SpecializePass : public flamia::impl::SpecializePassBase<SpecializePass> {
public:
  using SpecializePassBase::SpecializePassBase;

  LogicalResult specialize(KernelOp kernel, const Bindings &bindings) {
    if (failed(bindParameters(kernel, bindings)) || failed(bindDepends(kernel)))
      return failure();
    SmallVector<ParamOp> params;
    kernel.walk([&](ParamOp op) { params.push_back(op); });
    for (ParamOp op : params)
      if (failed(replaceParam(op, kernel.getParameters())))
        return failure();
    return bindExtents(kernel);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Bindings> bindings = parseBindings(params, module);
    if (failed(bindings))
      return signalPassFailure();

    SmallVector<KernelOp> kernels(module.getOps<KernelOp>());
    llvm::SetVector<StringRef> known;
    for (KernelOp kernel : kernels)
      for (NamedAttribute parameter : kernel.getParameters())
        known.insert(parameter.getName().getValue());
    for (auto [name, value] : *bindings)
      if (!known.contains(name)) {
        InFlightDiagnostic diagnostic =
            emitError(module.getLoc(), "no kernel has a parameter '")
            << name << "'";
        if (!known.empty())
          diagnostic << "; there are: " << llvm::join(known, ", ");
        return signalPassFailure();
      }

    for (KernelOp kernel : kernels)
      if (failed(specialize(kernel, *bindings)))
        return signalPassFailure();
    OpPassManager folding(ModuleOp::getOperationName());
    folding.addPass(createCanonicalizerPass());
    folding.addPass(createCSEPass());
    if (failed(runPipeline(folding, module)))
      return signalPassFailure();
    for (KernelOp kernel : kernels)
      if (failed(dropArguments(kernel)))
        return signalPassFailure();
  }
};
} // namespace
