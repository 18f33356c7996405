//===- KernelEvaluation.h - The library's kernels, evaluated ----*- C++ -*-===//
//
// Compiles a kernel of the library to the value level and makes its arguments.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_TEST_UNIT_EVALUATOR_KERNELEVALUATION_H
#define FLAMIA_TEST_UNIT_EVALUATOR_KERNELEVALUATION_H

#include "flamia/Evaluator/Evaluator.h"
#include "flamia/Numerics/Layout.h"
#include "passes/Passes.h"
#include "test/Unit/Needed.h"

#include "mlir/Parser/Parser.h"

#include <cstring>

namespace flamia::test {

using evaluator::Argument;
using evaluator::Arguments;

/// A kernel of the library after the value-level pipeline.
class CompiledKernel {
public:
  CompiledKernel(const std::string &file, const std::string &parameters,
                 bool safeguards = true)
      : context(makeRegistry()) {
    module = mlir::parseSourceFile<mlir::ModuleOp>(
        std::string(FLAMIA_SOURCE_DIR) + "/kernels/" + file, &context);
    if (!module)
      endTests("cannot read kernels/" + file + " of the source folder",
               __FILE__, __LINE__);
    mlir::PassManager passes(&context);
    PipelineOptions options;
    options.parameters = parameters;
    if (safeguards)
      buildFlamiaPipeline(passes, options);
    else
      passes.addPass(createSpecializePass(SpecializePassOptions{parameters}));
    if (failed(passes.run(*module)))
      module = {};
  }

  /// A kernel from its text, as it is.
  explicit CompiledKernel(const char *text) : context(makeRegistry()) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }

  KernelOp get(const std::string &name) {
    return module ? module->lookupSymbol<KernelOp>(name) : KernelOp();
  }

private:
  static mlir::DialectRegistry makeRegistry() {
    mlir::DialectRegistry registry;
    registerFlamiaDialects(registry);
    return registry;
  }
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

template <typename T>
Argument tensor(std::vector<int64_t> shape, const std::vector<T> &values) {
  Argument argument;
  argument.buffer.shape = std::move(shape);
  argument.buffer.bytes.resize(values.size() * sizeof(T));
  std::memcpy(argument.buffer.bytes.data(), values.data(),
              values.size() * sizeof(T));
  return argument;
}

/// A tensor whose every byte is \p byte: NaN patterns for outputs.
inline Argument filled(std::vector<int64_t> shape, int64_t elementBytes,
                       uint8_t byte = 0xFF) {
  Argument argument;
  int64_t bytes = elementBytes;
  for (int64_t extent : shape)
    bytes *= extent;
  argument.buffer.shape = std::move(shape);
  argument.buffer.bytes.assign(bytes, byte);
  return argument;
}

template <typename T>
std::vector<T> valuesOf(const Arguments &arguments, const char *name) {
  const std::vector<uint8_t> &bytes = arguments.find(name)->second.buffer.bytes;
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline Argument number(double value) {
  Argument argument;
  argument.isScalar = true;
  argument.scalar = value;
  return argument;
}

inline Argument workListOf(const std::vector<int64_t> &offsets) {
  std::vector<int64_t> bases = numerics::scaleTileBases(offsets);
  std::vector<int32_t> items;
  for (size_t d = 0; d + 1 < offsets.size(); ++d)
    for (int64_t t = 0; t < bases[d + 1] - bases[d]; ++t)
      for (int64_t field : {offsets[d], offsets[d + 1], t, bases[d]})
        items.push_back(int32_t(field));
  return tensor({int64_t(items.size()) / 4, 4}, items);
}

} // namespace flamia::test

#endif // FLAMIA_TEST_UNIT_EVALUATOR_KERNELEVALUATION_H
