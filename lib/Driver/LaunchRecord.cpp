//===- LaunchRecord.cpp - Writes NAME.json --------------------------------===//
//
// The format is described in docs/launch-record.md and read by lib/Runtime.
//
//===----------------------------------------------------------------------===//

#include "flamia/Driver/Driver.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::driver;

static StringRef str(DictionaryAttr dict, StringRef name) {
  return cast<StringAttr>(dict.get(name)).getValue();
}
static int64_t num(DictionaryAttr dict, StringRef name) {
  return cast<IntegerAttr>(dict.get(name)).getInt();
}

/// [name, dim, factor, name, dim]: an extent is a multiple of factor times
/// another one.
static void writeCondition(llvm::json::OStream &json, ArrayAttr condition) {
  auto dim = [&](StringRef key, size_t first) {
    json.attributeArray(key, [&] {
      json.value(cast<StringAttr>(condition[first]).getValue());
      json.value(cast<IntegerAttr>(condition[first + 1]).getInt());
    });
  };
  json.object([&] {
    dim("dim", 0);
    json.attribute("times", cast<IntegerAttr>(condition[2]).getInt());
    dim("multiple_of", 3);
  });
}

/// One grid extent: an integer, [name, dim, tile], or left to the launch.
static void writeGridTerm(llvm::json::OStream &json, Attribute term) {
  if (auto value = dyn_cast<IntegerAttr>(term)) {
    json.value(value.getInt());
    return;
  }
  if (isa<UnitAttr>(term)) {
    json.value("any");
    return;
  }
  auto parts = cast<ArrayAttr>(term);
  json.object([&] {
    json.attribute("arg", cast<StringAttr>(parts[0]).getValue());
    json.attribute("dim", cast<IntegerAttr>(parts[1]).getInt());
    json.attribute("tile", cast<IntegerAttr>(parts[2]).getInt());
  });
}

/// Size of a workspace tensor: bytes for each combination of the extents that
/// are known at launch only.
static void writeWorkspace(llvm::json::OStream &json, DictionaryAttr arg) {
  StringRef element = str(arg, "element");
  int64_t bits = element.starts_with("f4")                      ? 4
                 : element.starts_with("f8") || element == "i8" ? 8
                 : element.ends_with("16")                      ? 16
                 : element == "i64"                             ? 64
                                                                : 32;
  auto dims = arg.getAs<ArrayAttr>("dims").getAsRange<IntegerAttr>();
  auto names = arg.getAs<ArrayAttr>("dim_names");
  SmallVector<StringRef> per;
  for (auto [index, dim] : llvm::enumerate(dims)) {
    if (dim.getInt() >= 0)
      bits *= dim.getInt();
    else
      per.push_back(cast<StringAttr>(names[index]).getValue());
  }
  json.attributeObject("workspace", [&] {
    json.attribute("bytes", llvm::divideCeil(bits, 8));
    json.attributeArray("per", [&] {
      for (StringRef name : per)
        json.value(name);
    });
  });
}

static void writeArgument(llvm::json::OStream &json, DictionaryAttr arg) {
  json.object([&] {
    json.attribute("name", str(arg, "name"));
    auto dims = arg.getAs<ArrayAttr>("dims");
    auto extents = [&](StringRef member) {
      auto list = arg.getAs<ArrayAttr>(member);
      if (!list)
        return;
      json.attributeArray(member, [&] {
        for (auto extent : list.getAsRange<IntegerAttr>())
          if (extent.getInt() < 0)
            json.value(nullptr);
          else
            json.value(extent.getInt());
      });
    };
    json.attribute("kind", dims ? "tensor" : "scalar");
    json.attribute("element", str(arg, "element"));
    if (!dims)
      return;
    extents("dims");
    extents("strides");
    if (auto names = arg.getAs<ArrayAttr>("dim_names"))
      json.attributeArray("dim_names", [&] {
        for (auto name : names.getAsRange<StringAttr>())
          json.value(name.getValue());
      });
    json.attribute("access", str(arg, "access"));
    if (arg.get("workspace"))
      writeWorkspace(json, arg);
  });
}

static void writeParameter(llvm::json::OStream &json, DictionaryAttr param) {
  json.object([&] {
    if (param.get("of")) {
      StringRef member = param.get("dim") ? "dim" : "stride";
      json.attributeArray(member, [&] {
        json.value(str(param, "of"));
        json.value(num(param, member));
      });
    } else if (param.get("tensormap")) {
      int64_t span = num(param, "span_bytes");
      json.attribute("tensormap", str(param, "tensormap"));
      json.attribute("box_rows", num(param, "box_rows"));
      json.attribute("span_bytes", span);
      json.attribute("swizzle", std::to_string(span) + "B");
    } else if (param.get("pointer")) {
      json.attribute("pointer", str(param, "pointer"));
    } else {
      json.attribute("scalar", str(param, "scalar"));
    }
  });
}

std::string driver::launchRecord(DictionaryAttr launch, StringRef kernel,
                                 const Target &target, unsigned optLevel,
                                 StringRef ptxFile, StringRef cubinFile) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, /*IndentSize=*/1);
  json.object([&] {
    json.attribute("flamia_launch_record", 1);
    json.attribute("kernel", kernel);
    json.attribute("entry", kernel);
    json.attribute("arch", StringRef(target.name));
    json.attribute("numerics", 1);
    json.attribute("opt_level", optLevel);
    json.attribute("ptx", ptxFile);
    json.attribute("cubin", cubinFile);
    json.attributeObject("parameters", [&] {
      for (NamedAttribute parameter :
           cast<DictionaryAttr>(launch.get("parameters"))) {
        StringRef name = parameter.getName();
        Attribute value = parameter.getValue();
        if (auto boolean = dyn_cast<BoolAttr>(value))
          json.attribute(name, boolean.getValue());
        else if (auto integer = dyn_cast<IntegerAttr>(value))
          json.attribute(name, integer.getInt());
        else if (auto string = dyn_cast<StringAttr>(value))
          json.attribute(name, string.getValue());
      }
    });
    if (auto share = launch.getAs<ArrayAttr>("exp2_emulation"))
      json.attributeArray("exp2_emulation", [&] {
        for (auto number : share.getAsRange<IntegerAttr>())
          json.value(number.getInt());
      });
    json.attributeArray("block", [&] {
      json.value(num(launch, "threads"));
      json.value(1);
      json.value(1);
    });
    json.attributeArray("cluster", [&] {
      for (int i = 0; i < 3; ++i)
        json.value(1);
    });
    json.attribute("dynamic_smem", num(launch, "dynamic_smem"));
    json.attribute("tmem_columns", num(launch, "tmem_columns"));
    json.attributeArray("grid", [&] {
      auto terms = cast<ArrayAttr>(launch.get("grid"));
      for (Attribute term : terms)
        writeGridTerm(json, term);
      for (size_t i = terms.size(); i < 3; ++i)
        json.value(1);
    });
    if (auto conditions = launch.getAs<ArrayAttr>("requires");
        conditions && !conditions.empty())
      json.attributeArray("requires", [&] {
        for (auto condition : conditions.getAsRange<ArrayAttr>())
          writeCondition(json, condition);
      });
    if (launch.get("groups_y"))
      json.attribute("groups_y", true);
    json.attributeArray("args", [&] {
      for (auto arg :
           cast<ArrayAttr>(launch.get("args")).getAsRange<DictionaryAttr>())
        writeArgument(json, arg);
    });
    json.attributeArray("params", [&] {
      for (auto param :
           cast<ArrayAttr>(launch.get("params")).getAsRange<DictionaryAttr>())
        writeParameter(json, param);
    });
  });
  return text + "\n";
}
