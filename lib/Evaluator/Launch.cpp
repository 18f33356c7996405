//===- Launch.cpp - launch.json for the evaluator -------------------------===//

#include "flamia/Evaluator/Launch.h"

#include "flamia/Numerics/Formats.h"
#include "flamia/Reference/Compare.h"
#include "flamia/Sim/Npy.h"

#include "flamia/Support/Files.h"
#include "flamia/Support/Json.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::evaluator;

static llvm::Error error(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// Elements of a tensor in one numpy element: two for f4E2M1FN.
static int64_t perNumpyElement(Type element) {
  return isa<Float4E2M1FNType>(element) ? 2 : 1;
}

/// How numpy holds an element type.
static std::pair<char, unsigned> numpyType(Type element) {
  unsigned bytes = std::max(1u, element.getIntOrFloatBitWidth() / 8);
  if (element.isF32() || element.isF16())
    return {'f', bytes};
  return {isa<IntegerType>(element) && bytes > 1 ? 'i' : 'u', bytes};
}

static Type elementOf(KernelOp kernel, StringRef argument) {
  return cast<MemRefType>(kernel.getArgNamed(argument).getType())
      .getElementType();
}

static llvm::Expected<Buffer> readBuffer(StringRef path, StringRef name,
                                         Type element) {
  llvm::Expected<sim::NpyArray> array = sim::readNpy(path);
  if (!array)
    return array.takeError();
  auto [kind, bytes] = numpyType(element);
  if (array->kind != kind || array->elementBytes != bytes) {
    std::string type;
    llvm::raw_string_ostream(type) << element;
    return error("argument '" + name + "': expected numpy type " + Twine(kind) +
                 Twine(bytes) + " for " + type + ", but " + path + " holds " +
                 array->typeName());
  }
  Buffer buffer;
  buffer.shape.assign(array->shape.begin(), array->shape.end());
  if (!buffer.shape.empty())
    buffer.shape.back() *= perNumpyElement(element);
  buffer.bytes = std::move(array->data);
  return buffer;
}

static std::string joined(StringRef folder, StringRef file) {
  if (llvm::sys::path::is_absolute(file))
    return file.str();
  SmallString<128> path(folder);
  llvm::sys::path::append(path, file);
  return std::string(path);
}

static llvm::Error readArgument(StringRef name, const llvm::json::Value &value,
                                StringRef folder, KernelOp kernel,
                                Launch &launch) {
  BlockArgument arg = kernel.getArgNamed(name);
  if (!arg)
    return error("kernel @" + kernel.getSymName() + " has no argument '" +
                 name + "'");
  Argument argument;
  if (std::optional<double> number = value.getAsNumber()) {
    argument.isScalar = true;
    argument.scalar = *number;
  } else if (const llvm::json::Object *object = value.getAsObject();
             object && object->getString("buffer")) {
    auto memref = dyn_cast<MemRefType>(arg.getType());
    if (!memref)
      return error("argument '" + name + "': expected a number");
    llvm::Expected<Buffer> buffer =
        readBuffer(joined(folder, *object->getString("buffer")), name,
                   memref.getElementType());
    if (!buffer)
      return buffer.takeError();
    argument.buffer = std::move(*buffer);
    if (auto output = object->getString("output"))
      launch.outputs.push_back({name.str(), joined(folder, *output)});
  } else {
    return error("argument '" + name +
                 "': expected a number or {\"buffer\": FILE}");
  }
  launch.arguments[name] = std::move(argument);
  return llvm::Error::success();
}

static llvm::Error readExpectation(const llvm::json::Value &value,
                                   StringRef folder, Launch &launch) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object || !object->getString("output") || !object->getString("expected"))
    return error("expected members 'output' and 'expected' in 'expect'");
  LaunchExpectation expectation;
  expectation.output = joined(folder, *object->getString("output"));
  expectation.expected = joined(folder, *object->getString("expected"));
  auto output = llvm::find_if(launch.outputs, [&](const LaunchOutput &known) {
    return known.path == expectation.output;
  });
  if (output == launch.outputs.end())
    return error("'expect' names output '" + *object->getString("output") +
                 "', which no argument writes");
  expectation.argument = output->argument;
  expectation.relativeFrobenius =
      object->getNumber("relative_frobenius").value_or(-1);
  expectation.maxAbs = object->getNumber("max_abs").value_or(-1);
  expectation.bitwise = object->getBoolean("bitwise").value_or(false);
  if (!expectation.bitwise && expectation.relativeFrobenius < 0 &&
      expectation.maxAbs < 0)
    return error("expected 'relative_frobenius', 'max_abs' or 'bitwise' in "
                 "'expect'");
  launch.expectations.push_back(std::move(expectation));
  return llvm::Error::success();
}

llvm::Expected<Launch> evaluator::readLaunch(StringRef path, KernelOp kernel) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return error("cannot read " + path + ": " + file.getError().message());
  llvm::Expected<llvm::json::Value> json = parseJson((*file)->getBuffer());
  if (!json)
    return error(path + ": " + llvm::toString(json.takeError()));
  const llvm::json::Object *object = json->getAsObject();
  const llvm::json::Object *args = object ? object->getObject("args") : nullptr;
  if (!args)
    return error(path + ": expected an object with a member 'args'");
  StringRef folder = llvm::sys::path::parent_path(path);
  Launch launch;
  for (const auto &[name, value] : *args)
    if (llvm::Error fault = readArgument(name, value, folder, kernel, launch))
      return std::move(fault);
  if (const llvm::json::Array *expect = object->getArray("expect"))
    for (const llvm::json::Value &value : *expect)
      if (llvm::Error fault = readExpectation(value, folder, launch))
        return std::move(fault);
  return launch;
}

llvm::Error evaluator::writeOutputs(KernelOp kernel, const Launch &launch) {
  std::vector<OutputFile> files;
  for (const LaunchOutput &output : launch.outputs) {
    const Buffer &buffer =
        launch.arguments.find(output.argument)->second.buffer;
    Type element = elementOf(kernel, output.argument);
    auto [kind, bytes] = numpyType(element);
    SmallVector<uint64_t> shape(buffer.shape.begin(), buffer.shape.end());
    shape.back() /= perNumpyElement(element);
    files.push_back(
        {output.path, sim::encodeNpy(kind, bytes, shape, buffer.bytes)});
  }
  return writeFiles(files);
}

/// Elements as numbers.
static std::vector<double> numbersOf(const Buffer &buffer, Type element) {
  if (isa<Float4E2M1FNType>(element)) {
    std::vector<double> values;
    for (uint8_t byte : buffer.bytes)
      for (unsigned shift : {0, 4})
        values.push_back(numerics::e2m1ToFloat(byte >> shift & 15));
    return values;
  }
  unsigned bytes = std::max(1u, element.getIntOrFloatBitWidth() / 8);
  std::vector<double> values(buffer.bytes.size() / bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint8_t *from = buffer.bytes.data() + i * bytes;
    uint32_t word = 0;
    std::memcpy(&word, from, bytes);
    values[i] = element.isF32()    ? numerics::floatOf(word)
                : element.isBF16() ? numerics::bf16ToFloat(uint16_t(word))
                : element.isF16()  ? numerics::f16ToFloat(uint16_t(word))
                : isa<Float8E4M3FNType>(element)
                    ? numerics::e4m3ToFloat(uint8_t(word))
                : element.isInteger(32) ? double(int32_t(word))
                                        : double(word);
  }
  return values;
}

llvm::Expected<bool> evaluator::checkExpectations(KernelOp kernel,
                                                  const Launch &launch,
                                                  llvm::raw_ostream &report) {
  bool ok = true;
  for (const LaunchExpectation &expectation : launch.expectations) {
    StringRef name = expectation.argument;
    Type element = elementOf(kernel, name);
    llvm::Expected<Buffer> expected =
        readBuffer(expectation.expected, name, element);
    if (!expected)
      return expected.takeError();
    const Buffer &actual = launch.arguments.find(name)->second.buffer;
    if (actual.shape != expected->shape)
      return error("'" + name + "': " + expectation.expected +
                   " has another shape");
    bool same = actual.bytes == expected->bytes;
    std::vector<double> numbers = numbersOf(actual, element);
    reference::ErrorMeasure measure = reference::measureError(
        std::vector<float>(numbers.begin(), numbers.end()),
        numbersOf(*expected, element));
    bool fits =
        (!expectation.bitwise || same) &&
        (expectation.relativeFrobenius < 0 ||
         measure.relativeFrobenius <= expectation.relativeFrobenius) &&
        (expectation.maxAbs < 0 || measure.maxAbs <= expectation.maxAbs);
    report << name << ": relative_frobenius "
           << llvm::format("%.3g", measure.relativeFrobenius) << ", max_abs "
           << llvm::format("%.3g", measure.maxAbs)
           << (same ? ", bitwise equal" : "") << (fits ? "" : ": MISMATCH")
           << "\n";
    ok &= fits;
  }
  return ok;
}
