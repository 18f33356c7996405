//===- LaunchCheck.cpp - Whether a launch record can be written -----------===//
//
// convert-flamia-to-nvvm writes the attribute `flamia.launch` right; the author
// of a thread program may not.
//
//===----------------------------------------------------------------------===//

#include "flamia/Driver/Driver.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;
using namespace flamia;

namespace {

bool isInteger(Attribute attr) { return isa_and_nonnull<IntegerAttr>(attr); }
bool isString(Attribute attr) { return isa_and_nonnull<StringAttr>(attr); }

template <typename Check>
bool isList(Attribute attr, Check check) {
  auto list = dyn_cast_or_null<ArrayAttr>(attr);
  return list && llvm::all_of(list, check);
}

bool isArgument(Attribute attr) {
  auto arg = dyn_cast<DictionaryAttr>(attr);
  if (!arg || !isString(arg.get("name")) || !isString(arg.get("element")))
    return false;
  Attribute dims = arg.get("dims"), names = arg.get("dim_names"),
            strides = arg.get("strides");
  if (!dims)
    return !names && !strides && !arg.get("workspace");
  auto fits = [&](Attribute list) {
    return !list ||
           cast<ArrayAttr>(list).size() == cast<ArrayAttr>(dims).size();
  };
  return isList(dims, isInteger) && isString(arg.get("access")) &&
         (!names || isList(names, isString)) &&
         (!strides || isList(strides, isInteger)) && fits(names) &&
         fits(strides) && (!arg.get("workspace") || names);
}

bool isParameter(Attribute attr) {
  auto param = dyn_cast<DictionaryAttr>(attr);
  if (!param)
    return false;
  if (param.get("of"))
    return isString(param.get("of")) &&
           isInteger(param.get(param.get("dim") ? "dim" : "stride"));
  if (param.get("tensormap"))
    return isString(param.get("tensormap")) &&
           isInteger(param.get("box_rows")) &&
           isInteger(param.get("span_bytes"));
  return isString(param.get(param.get("pointer") ? "pointer" : "scalar"));
}

bool isGridTerm(Attribute attr) {
  if (isInteger(attr) || isa<UnitAttr>(attr))
    return true;
  auto parts = dyn_cast<ArrayAttr>(attr);
  return parts && parts.size() == 3 && isString(parts[0]) &&
         isInteger(parts[1]) && isInteger(parts[2]);
}

} // namespace

llvm::Error driver::checkLaunch(Attribute attr) {
  auto launch = dyn_cast_or_null<DictionaryAttr>(attr);
  if (!launch)
    return llvm::createStringError(
        "expected 'flamia.launch' to be a dictionary");
  auto fault = [](StringRef member, StringRef what) {
    return llvm::createStringError("expected '" + member +
                                   "' of 'flamia.launch' to be " + what);
  };
  if (!isList(launch.get("args"), isArgument))
    return fault("args", "a list of arguments {name, element, dims, access}");
  if (!isList(launch.get("params"), isParameter))
    return fault("params", "a list of {pointer}, {dim, of}, {stride, of}, "
                           "{scalar} or {tensormap, box_rows, span_bytes}");
  auto grid = dyn_cast_or_null<ArrayAttr>(launch.get("grid"));
  if (!isList(grid, isGridTerm) || grid.size() > 3)
    return fault("grid", "at most 3 of an integer, [argument, dimension, tile] "
                         "or unit");
  if (!isa_and_nonnull<DictionaryAttr>(launch.get("parameters")))
    return fault("parameters", "a dictionary");
  for (StringRef member : {"threads", "dynamic_smem", "tmem_columns"})
    if (!isInteger(launch.get(member)))
      return fault(member, "an integer");
  return llvm::Error::success();
}
