//===- Simulator.cpp - Modules, options, diagnostics ----------------------===//

#include "flamia/Sim/Simulator.h"
#include "Program.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>

namespace flamia {
namespace sim {

using llvm::Error;
using llvm::Expected;
using llvm::SmallVector;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

Module::Module() : decoded(std::make_unique<Program>()) {}
Module::~Module() = default;

Expected<std::unique_ptr<Module>> Module::parse(StringRef text,
                                                StringRef fileName) {
  ptx::ModuleAst ast;
  ast.fileName = fileName.str();
  ast.text = text.str();
  if (Error e = ptx::parseModule(ast))
    return std::move(e);
  std::unique_ptr<Module> module(new Module());
  if (Error e = decodeModule(ast, *module->decoded))
    return std::move(e);
  for (const Kernel &k : module->decoded->kernels)
    module->kernelInfos.push_back(k.info);
  return std::move(module);
}

Expected<std::unique_ptr<Module>> Module::load(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError(buffer.getError(),
                                   "cannot read '" + path +
                                       "': " + buffer.getError().message());
  return parse((*buffer)->getBuffer(), path);
}

StringRef Module::fileName() const { return decoded->fileName; }

const KernelInfo *Module::findKernel(StringRef name) const {
  for (const KernelInfo &k : kernelInfos)
    if (k.name == name)
      return &k;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

static Error badMap(const Twine &message) {
  return llvm::createStringError("tensor map: " + message);
}

Expected<std::vector<uint8_t>>
DeviceMemory::encodeTensorMap(const TensorMapSpec &spec) {
  static const std::pair<const char *, TmaType> types[] = {
      {"u8", TmaType::U8},
      {"u16", TmaType::U16},
      {"u32", TmaType::U32},
      {"s32", TmaType::S32},
      {"u64", TmaType::U64},
      {"s64", TmaType::S64},
      {"f16", TmaType::F16},
      {"f32", TmaType::F32},
      {"f64", TmaType::F64},
      {"bf16", TmaType::BF16},
      {"f32_ftz", TmaType::F32Ftz},
      {"tf32", TmaType::TF32},
      {"tf32_ftz", TmaType::TF32Ftz},
      {"16u4_align8b", TmaType::U4x16Align8B},
      {"16u4_align16b", TmaType::U4x16Align16B},
      {"16u6_align16b", TmaType::U6x16Align16B}};
  static const std::pair<const char *, TmaSwizzle> swizzles[] = {
      {"none", TmaSwizzle::None},
      {"32B", TmaSwizzle::B32},
      {"64B", TmaSwizzle::B64},
      {"128B", TmaSwizzle::B128},
      {"128B_ATOM_32B", TmaSwizzle::B128Atom32B},
      {"128B_ATOM_32B_FLIP_8B", TmaSwizzle::B128Atom32BFlip8B},
      {"128B_ATOM_64B", TmaSwizzle::B128Atom64B}};
  TensorMap map;
  bool found = false;
  for (auto [name, type] : types)
    if (StringRef(spec.type).equals_insensitive(name)) {
      map.type = type;
      found = true;
    }
  if (!found)
    return badMap("unknown type '" + spec.type + "'");
  found = false;
  for (auto [name, swizzle] : swizzles)
    if (StringRef(spec.swizzle).equals_insensitive(name)) {
      map.swizzle = swizzle;
      found = true;
    }
  if (!found)
    return badMap("unknown swizzle '" + spec.swizzle + "'");
  size_t rank = spec.dims.size();
  if (rank < 1 || rank > 5)
    return badMap("expected 1 to 5 dims, but got " + Twine(rank));
  if (spec.strides.size() != rank - 1)
    return badMap("expected " + Twine(rank - 1) + " strides, but got " +
                  Twine(spec.strides.size()));
  if (spec.box.size() != rank)
    return badMap("expected " + Twine(rank) + " box extents, but got " +
                  Twine(spec.box.size()));
  if (!spec.elementStrides.empty() && spec.elementStrides.size() != rank)
    return badMap("expected " + Twine(rank) + " element strides, but got " +
                  Twine(spec.elementStrides.size()));
  map.rank = unsigned(rank);
  map.address = spec.address;
  std::copy(spec.dims.begin(), spec.dims.end(), map.dims.begin());
  std::copy(spec.strides.begin(), spec.strides.end(), map.strides.begin());
  std::copy(spec.box.begin(), spec.box.end(), map.box.begin());
  std::copy(spec.elementStrides.begin(), spec.elementStrides.end(),
            map.elementStrides.begin());
  if (spec.interleave == "16B")
    map.interleave = TmaInterleave::B16;
  else if (spec.interleave == "32B")
    map.interleave = TmaInterleave::B32;
  else if (spec.interleave != "none")
    return badMap("unknown interleave '" + spec.interleave + "'");
  if (spec.oobFill == "nan")
    map.fill = TmaFill::NaN;
  else if (spec.oobFill != "zero")
    return badMap("unknown oob_fill '" + spec.oobFill + "'");
  std::string error;
  if (!map.validate(error))
    return badMap(error);
  auto bytes = map.toBytes();
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static const std::pair<const char *, Check> checkNames[] = {
    {"bounds", Check::Bounds},          {"alignment", Check::Alignment},
    {"uninit", Check::Uninit},          {"tmem-wait", Check::TmemWait},
    {"tmem-alloc", Check::TmemAlloc},   {"tmem-lanes", Check::TmemLanes},
    {"converge", Check::Converge},      {"barrier", Check::Barrier},
    {"descriptor", Check::Descriptor},  {"readonly", Check::Readonly},
    {"setmaxnreg", Check::SetMaxNReg},  {"race", Check::Race},
    {"proxy-fence", Check::ProxyFence}, {"tcgen05-fence", Check::TensorFence},
    {"ptx-order", Check::PtxOrder}};

CheckSet CheckSet::all() {
  CheckSet set;
  for (auto [name, check] : checkNames)
    set.set(check, check != Check::PtxOrder);
  return set;
}

std::vector<StringRef> CheckSet::names() {
  std::vector<StringRef> names;
  for (auto [name, check] : checkNames)
    names.push_back(name);
  return names;
}

Expected<CheckSet> CheckSet::parse(StringRef list) {
  CheckSet set;
  SmallVector<StringRef, 8> words;
  list.split(words, ',');
  for (StringRef word : words) {
    word = word.trim();
    bool on = !word.consume_front("-");
    if (word == "all" || word == "none") {
      set = (word == "all") == on ? all() : none();
      continue;
    }
    bool found = false;
    for (auto [name, check] : checkNames)
      if (word == name) {
        set.set(check, on);
        found = true;
      }
    if (!found) {
      std::string known = "all none";
      for (auto [name, check] : checkNames)
        known += std::string(" ") + name;
      return llvm::createStringError("unknown check '" + word +
                                     "', expected one of: " + known);
    }
  }
  return set;
}

Expected<std::vector<CtaRange>> parseCtaRanges(StringRef text) {
  std::vector<CtaRange> ranges;
  SmallVector<StringRef, 4> words;
  text.split(words, ',');
  for (StringRef word : words) {
    auto [first, last] = word.trim().split('-');
    CtaRange range;
    bool bad = first.getAsInteger(10, range.first);
    if (word.contains('-'))
      bad |= last.getAsInteger(10, range.last);
    else
      range.last = range.first;
    if (bad || range.last < range.first)
      return llvm::createStringError("malformed CTA range '" + word +
                                     "', expected N or FIRST-LAST");
    ranges.push_back(range);
  }
  return ranges;
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

std::string Diagnostic::render() const {
  std::string out = file;
  if (line)
    out += ":" + std::to_string(line);
  out += ": error: " + message;
  if (hasCta) {
    out += " [cta (" + std::to_string(cta[0]) + "," + std::to_string(cta[1]) +
           "," + std::to_string(cta[2]) + ")";
    if (warp >= 0)
      out += ", warp " + std::to_string(warp);
    if (lane >= 0)
      out += ", lane " + std::to_string(lane);
    out += "]";
  }
  if (!check.empty())
    out += " [-" + check + "]";
  out += "\n";
  if (!source.empty())
    out += "  note: from " + source + "\n";
  for (const std::string &note : notes)
    out += "  note: " + note + "\n";
  return out;
}

} // namespace sim
} // namespace flamia
