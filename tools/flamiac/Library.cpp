//===- Library.cpp - flamiac --library ------------------------------------===//
//
// Compiles each kernel of the library with each combination of its parameters
// and lists the launch records in index.json.
//
//===----------------------------------------------------------------------===//

#include "Flamiac.h"

#include "mlir/Support/Timing.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::flamiac;

static std::string spell(Attribute value) {
  if (auto boolean = dyn_cast<BoolAttr>(value))
    return boolean.getValue() ? "true" : "false";
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return std::to_string(integer.getInt());
  return cast<StringAttr>(value).getValue().str();
}

/// All bindings of the kernel's parameters, one list of definitions each.
static std::vector<std::vector<std::string>> combinations(Operation *kernel) {
  std::vector<std::vector<std::string>> result = {{}};
  for (NamedAttribute parameter : parametersOf(kernel)) {
    auto choices = dyn_cast<ArrayAttr>(parameter.getValue());
    if (!choices)
      continue;
    std::vector<std::vector<std::string>> longer;
    for (const auto &prefix : result)
      for (Attribute choice : choices) {
        longer.push_back(prefix);
        longer.back().push_back(parameter.getName().str() + "=" +
                                spell(choice));
      }
    result = std::move(longer);
  }
  return result;
}

/// attention_fwd-causal_true-format_nvfp4-head_dim_128; mxfp8 is not named.
static std::string stemOf(Operation *kernel,
                          const std::vector<std::string> &definitions) {
  std::string stem = nameOf(kernel).str();
  for (const std::string &definition : definitions) {
    if (definition == "format=mxfp8")
      continue;
    auto [name, value] = StringRef(definition).split('=');
    stem += ("-" + name + "_" + value).str();
  }
  return stem;
}

llvm::Error flamiac::compileLibrary(MLIRContext &context,
                                    const Options &options, StringRef sources,
                                    StringRef folder, TimingScope &timing) {
  std::vector<std::string> paths;
  std::error_code failure;
  for (llvm::sys::fs::directory_iterator it(sources, failure), end;
       !failure && it != end; it.increment(failure))
    if (llvm::sys::path::extension(it->path()) == ".mlir")
      paths.push_back(it->path());
  if (failure)
    return llvm::createStringError("cannot read the library's sources in '" +
                                   sources + "': " + failure.message());
  llvm::sort(paths);
  auto ptxas = driver::findPtxas();
  if (!ptxas)
    return ptxas.takeError();
  if (llvm::Error error = driver::checkPtxas(*ptxas, *options.target))
    return error;

  std::vector<OutputFile> files;
  std::string index;
  llvm::raw_string_ostream stream(index);
  llvm::json::OStream json(stream, /*IndentSize=*/1);
  auto place = [&](const std::string &name) {
    SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    return path.str().str();
  };
  json.objectBegin();
  json.attribute("flamia_kernel_index", 1);
  json.attribute("arch", StringRef(options.target->name));
  json.attribute("opt_level", options.optLevel);
  json.attributeBegin("kernels");
  json.arrayBegin();
  for (const std::string &path : paths) {
    auto module = parseSource(path, context);
    if (!module)
      return module.takeError();
    for (Operation *kernel : kernelsOf(**module))
      for (const auto &definitions : combinations(kernel)) {
        OwningOpRef<ModuleOp> single = isolate(kernel);
        Options one = options;
        one.definitions = definitions;
        one.stage = Stage::Cubin;
        auto artifact = compileKernel(
            *single, one, &*ptxas, stemOf(kernel, definitions), timing, files);
        if (!artifact)
          return artifact.takeError();
        json.object([&] {
          json.attribute("kernel", artifact->kernel);
          json.attributeObject("parameters", [&] {
            for (auto &[name, value] : artifact->parameters) {
              json.attributeBegin(name);
              json.rawValue(value);
              json.attributeEnd();
            }
          });
          json.attribute("record", artifact->stem + ".json");
        });
        files.push_back({place(artifact->stem + ".cubin"), artifact->cubin});
        files.push_back({place(artifact->stem + ".ptx"), artifact->ptx});
        files.push_back({place(artifact->stem + ".json"), artifact->record});
      }
  }
  json.arrayEnd();
  json.attributeEnd();
  json.objectEnd();
  stream << "\n";
  files.push_back({place("index.json"), index});
  if (std::error_code made = llvm::sys::fs::create_directories(folder))
    return llvm::createStringError("cannot create '" + folder +
                                   "': " + made.message());
  return writeFiles(files);
}
