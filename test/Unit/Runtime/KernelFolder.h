//===- KernelFolder.h - Kernels that do nothing -----------------*- C++ -*-===//
//
// A folder of compiled kernels with chosen arguments that return at once, so
// that what the host API binds to them can be looked at.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TEST_UNIT_RUNTIME_KERNELFOLDER_H
#define FLAMIA_TEST_UNIT_RUNTIME_KERNELFOLDER_H

#include "flamia/Runtime/Runtime.h"
#include "test/Unit/Needed.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <map>

namespace flamia::test {

/// Arguments of a kernel as "name:element:dims" with a "!" after the name of
/// what it writes, a "@" after the dimensions of what the record has in the
/// workspace, and a "~" after the three of what may have strides. Dimensions: T
/// tokens, S tiles, H heads, G kv heads, or numbers. The file is named KERNEL,
/// or KERNEL_nvfp4 with that parameter.
struct Declaration {
  const char *kernel;
  const char *parameters;
  const char *arguments;
  /// More members of the record, each with a comma behind it.
  const char *more = "";
};

/// A folder of such kernels.
class KernelFolder {
public:
  explicit KernelFolder(llvm::ArrayRef<Declaration> declarations) {
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("flamia-plan", folder));
    for (const Declaration &declaration : declarations) {
      write(declaration);
      if (llvm::StringRef(declaration.parameters).contains("DLSE"))
        write(declaration, "true", "_dlse");
    }
  }
  ~KernelFolder() { llvm::sys::fs::remove_directories(folder); }

  void write(const Declaration &declaration, const char *dlse = "false",
             const char *suffix = "") {
    std::string name = std::string(declaration.kernel) + suffix, args, params,
                ptx;
    llvm::SmallVector<llvm::StringRef> arguments;
    llvm::StringRef(declaration.arguments).split(arguments, ' ');
    for (llvm::StringRef argument : arguments) {
      auto [nameText, rest] = argument.split(':');
      auto [element, dims] = rest.split(':');
      bool written = nameText.consume_back("!"), tensor = !dims.empty();
      bool workspace = dims.consume_back("@");
      bool strided = dims.consume_back("~");
      std::string comma = args.empty() ? "" : ", ";
      args += comma + "{\"name\": \"" + nameText.str() + "\", \"element\": \"" +
              element.str() + "\", \"kind\": \"" +
              (tensor ? "tensor" : "scalar") + "\"";
      if (tensor)
        args += ", \"access\": \"" + std::string(written ? "write" : "read") +
                "\", " + dimensions(dims);
      // [tokens, heads] of f32 is all that the tests need.
      if (workspace)
        args += R"(, "workspace": {"bytes": 4, "per": ["tokens", "heads"]})";
      if (strided)
        args += R"(, "strides": [null, null, 1])";
      args += "}";
      params += comma + "{\"" + (tensor ? "pointer" : "scalar") + "\": \"" +
                nameText.str() + "\"}";
      ptx += comma + ".param " + (tensor ? ".u64" : ".f32") + " p" +
             std::to_string(ptx.size());
    }
    std::string parameters = declaration.parameters;
    if (llvm::StringRef(parameters).contains("nvfp4"))
      name += "_nvfp4";
    if (size_t at = parameters.find("DLSE"); at != std::string::npos)
      parameters.replace(at, 4, dlse);
    save(name + ".ptx", ".version 8.8\n.target sm_100a\n.address_size 64\n"
                        ".visible .entry " +
                            std::string(declaration.kernel) + "(" + ptx +
                            ")\n{\n ret;\n}\n");
    save(name + ".json",
         "{\"flamia_launch_record\": 1, \"kernel\": \"" +
             std::string(declaration.kernel) + "\", \"entry\": \"" +
             declaration.kernel + R"(", "arch": "sm_100a", "numerics": 1, )" +
             declaration.more + R"("opt_level": 2, "ptx": ")" + name +
             R"(.ptx", "cubin": "none.cubin", "parameters": {)" + parameters +
             R"(}, "block": [32, 1, 1], "cluster": [1, 1, 1],
 "dynamic_smem": 0, "tmem_columns": 0,
 "grid": [{"arg": "work", "dim": 0, "tile": 1}, 1, 1], "args": [)" +
             args + "], \"params\": [" + params + "]}");
  }
  void remove(llvm::StringRef name) {
    EXPECT_FALSE(llvm::sys::fs::remove((folder + "/" + name).str()));
  }
  runtime::KernelLibrary open() {
    return needed(runtime::KernelLibrary::open(folder));
  }
  llvm::StringRef path() const { return folder; }

private:
  static std::string dimensions(llvm::StringRef text) {
    const std::map<llvm::StringRef, const char *> names = {
        {"T", "tokens"}, {"S", "tiles"}, {"H", "heads"}, {"G", "kv_heads"}};
    llvm::SmallVector<llvm::StringRef> parts;
    text.split(parts, ',');
    std::string dims, dimNames;
    for (llvm::StringRef part : parts) {
      bool number = !part.empty() && llvm::isDigit(part[0]);
      auto name = names.find(part);
      dims += (dims.empty() ? "" : ", ") + (number ? part.str() : "null");
      dimNames += (dimNames.empty() ? "\"" : ", \"") +
                  std::string(name == names.end() ? "" : name->second) + "\"";
    }
    return "\"dims\": [" + dims + "], \"dim_names\": [" + dimNames + "]";
  }
  void save(llvm::StringRef name, llvm::StringRef text) {
    std::error_code failure;
    llvm::raw_fd_ostream stream((folder + "/" + name).str(), failure);
    EXPECT_FALSE(failure);
    stream << text;
  }

  llvm::SmallString<128> folder;
};

} // namespace flamia::test

#endif // FLAMIA_TEST_UNIT_RUNTIME_KERNELFOLDER_H
