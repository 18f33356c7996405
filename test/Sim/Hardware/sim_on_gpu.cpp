//===- sim_on_gpu.cpp - Instructions on the simulator and on a GPU --------===//
//
// sim_on_gpu MODE [options]; modes:
//   exhaustive FORMS   every input of the forms with a domain (forms.txt)
//   random FORMS       the forms without one, on random and special values
//   approx             approximate functions: error against the PTX manual's
//   programs FOLDER    the kernels of Inputs/: barriers, copies, exchanges
// Options: --sim-only (no GPU: the texts must run), --bits=N (inputs: 2^N at
// most), --seconds=N (no new form afterwards), --threads=N, --match=TEXT,
// --ptx=DIR (writes the texts, for ptxas).
// Exit code 77 without a GPU, 1 when something differs.
//
//===----------------------------------------------------------------------===//

#include "Run.h"

#include <algorithm>
#include <dirent.h>

using namespace hw;

namespace {

//===----------------------------------------------------------------------===//
// NaN payloads
//===----------------------------------------------------------------------===//

/// Which floats the result holds, from the type of the instruction's result.
enum class FloatKind { None, F16, BF16, F32, F64 };

FloatKind floatsOf(const Form &f) {
  // The last instruction's first type after the operation's name; conversions
  // name the result's type first, the others have one type.
  std::string op = f.statement.substr(0, f.statement.find(' '));
  auto has = [&](const char *t) { return op.find(t) != std::string::npos; };
  if (f.result == "p" || op.compare(0, 3, "set") == 0)
    return FloatKind::None;
  if (op.compare(0, 4, "cvt.") == 0) {
    size_t last = op.rfind('.');
    op = op.substr(0, last);
  }
  return has(".bf16")  ? FloatKind::BF16
         : has(".f16") ? FloatKind::F16
         : has(".f32") ? FloatKind::F32
         : has(".f64") ? FloatKind::F64
                       : FloatKind::None;
}

bool bothNan(FloatKind kind, const uint32_t *a, const uint32_t *b) {
  auto half = [&](uint32_t x, uint32_t y, uint32_t infinity) {
    return x == y || ((x & 0x7fff) > infinity && (y & 0x7fff) > infinity);
  };
  uint32_t infinity = kind == FloatKind::BF16 ? 0x7f80 : 0x7c00;
  switch (kind) {
  case FloatKind::None:
    return false;
  case FloatKind::F16:
  case FloatKind::BF16:
    return a[1] == b[1] && half(a[0] & 0xffff, b[0] & 0xffff, infinity) &&
           half(a[0] >> 16, b[0] >> 16, infinity);
  case FloatKind::F32:
    return a[1] == b[1] && (a[0] & 0x7fffffff) > 0x7f800000 &&
           (b[0] & 0x7fffffff) > 0x7f800000;
  case FloatKind::F64: {
    uint64_t x = a[0] | uint64_t(a[1]) << 32, y = b[0] | uint64_t(b[1]) << 32;
    uint64_t m = ~0ull >> 1, i = 0x7ffull << 52;
    return (x & m) > i && (y & m) > i;
  }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Modes
//===----------------------------------------------------------------------===//

} // namespace

/// Prints the first inputs of a range on which the sides differ.
void Run::explain(const Form &f, uint32_t first, uint32_t step,
                  uint32_t count) {
  Program p;
  p.text = valueKernel(f);
  p.block = std::min(count, 256u);
  p.grid = count / p.block;
  p.numbers = {first, step};
  std::vector<Words> gpu, sim;
  if (!results(f.statement, p, {Words(2 * size_t(count))}, gpu, sim))
    return;
  unsigned shown = 0;
  for (uint32_t k = 0; k < count && shown < 3; ++k)
    if (gpu[0][2 * k] != sim[0][2 * k] ||
        gpu[0][2 * k + 1] != sim[0][2 * k + 1]) {
      ++shown;
      std::printf("    a = %08x: GPU %08x %08x, simulator %08x %08x\n",
                  (first + k) * step, gpu[0][2 * k], gpu[0][2 * k + 1],
                  sim[0][2 * k], sim[0][2 * k + 1]);
    }
}

void Run::exhaustive(const std::vector<Form> &forms) {
  for (const Form &f : forms) {
    if (!f.domain || f.statement.find(settings.match) == std::string::npos)
      continue;
    if (late()) {
      ++notRun;
      std::printf("%-44s not run\n", f.statement.c_str());
      continue;
    }
    double began = elapsed();
    unsigned bits = std::min(f.domain, settings.bits);
    // 2^20 threads of 4096 values, or fewer of both.
    unsigned each = bits > 24 ? 12 : 3;
    Program p;
    p.text = hashKernel(f);
    uint32_t threads = 1u << (std::max(bits, each + 5) - each);
    p.block = std::min(threads, 256u);
    p.grid = threads / p.block;
    // Less than all: a step that reaches every part of the range.
    uint32_t step = bits < f.domain ? 1u << (f.domain - bits) | 1 : 1;
    p.numbers = {0, step, 1u << each};
    std::vector<Words> gpu, sim;
    if (!results(f.statement, p, {Words(threads)}, gpu, sim))
      continue;
    size_t wrong = 0;
    for (uint32_t t = 0; t < threads; ++t)
      if (gpu[0][t] != sim[0][t] && wrong++ < 2)
        explain(f, t << each, step, 1u << each);
    (wrong ? failures : passed) += 1;
    std::printf("%-44s 2^%-2u inputs, %s", f.statement.c_str(), bits,
                wrong ? "DIFFERS" : "same");
    if (wrong)
      std::printf(" in %zu of %u ranges", wrong, threads);
    std::printf("  (%.1f s)\n", elapsed() - began);
    std::fflush(stdout);
  }
}

namespace {

/// Words that are often special for some type.
class Values {
public:
  uint64_t next() {
    switch (engine() % 8) {
    case 0:
      return special16() | special16() << 16 | special16() << 32 |
             special16() << 48;
    case 1:
      return special32() | special32() << 32;
    case 2:
      return special64();
    case 3:
      return engine() & 255;
    case 4:
      return uint64_t(-int64_t(engine() & 255));
    default:
      return engine();
    }
  }
  std::mt19937_64 engine{11};

private:
  uint64_t special16() {
    static const uint16_t list[] = {0,      0x8000, 1,      0x8001, 0x3ff,
                                    0x400,  0x3c00, 0xbc00, 0x7bff, 0x7c00,
                                    0xfc00, 0x7e00, 0xfe01, 0x3f80, 0xbf80,
                                    0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0x80};
    return list[engine() % std::size(list)];
  }
  uint64_t special32() {
    static const uint32_t list[] = {
        0,          0x80000000, 1,          0x80000001, 0x7fffff,   0x800000,
        0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
        0x7fc00000, 0xffc12345, 0x7f800001, 0x4f000000, 0x4f800000, 0xcf000000,
        0x7fffffff, 0x80000080, 0x3effffff, 0x3f000000, 0x00400000};
    return list[engine() % std::size(list)];
  }
  uint64_t special64() {
    static const uint64_t list[] = {0,
                                    1,
                                    1ull << 63,
                                    1ull << 52,
                                    0x3ff0000000000000,
                                    0xbff0000000000000,
                                    0x7fefffffffffffff,
                                    0x7ff0000000000000,
                                    0xfff0000000000000,
                                    0x7ff8000000000000,
                                    0xfff8000000000123,
                                    0x7ff0000000000001,
                                    0x000fffffffffffff,
                                    0x41e0000000000000,
                                    0x43e0000000000000};
    return list[engine() % std::size(list)];
  }
};

} // namespace

void Run::random(const std::vector<Form> &forms) {
  uint32_t count = 1u << std::min(settings.bits, 19u);
  Values values;
  Words in(6 * size_t(count));
  for (size_t k = 0; k < in.size(); k += 6)
    for (unsigned w = 0; w < 3; ++w) {
      uint64_t v = values.next();
      // Equal and opposite operands.
      if (w && values.engine() % 8 == 0)
        v = in[k] | uint64_t(in[k + 1]) << 32;
      if (w && values.engine() % 16 == 0)
        v ^= 0x8000800080008000;
      in[k + 2 * w] = uint32_t(v);
      in[k + 2 * w + 1] = uint32_t(v >> 32);
    }
  for (const Form &f : forms) {
    if (f.domain || f.statement.find(settings.match) == std::string::npos)
      continue;
    if (late()) {
      ++notRun;
      continue;
    }
    Program p;
    p.text = randomKernel(f);
    p.block = std::min(count, 256u);
    p.grid = count / p.block;
    std::vector<Words> gpu, sim;
    if (!results(f.statement, p, {Words(2 * size_t(count)), in}, gpu, sim))
      continue;
    size_t wrong = 0, nans = 0;
    for (uint32_t k = 0; k < count; ++k) {
      const uint32_t *g = &gpu[0][2 * k], *s = &sim[0][2 * k];
      if (g[0] == s[0] && g[1] == s[1])
        continue;
      bool nan = bothNan(floatsOf(f), g, s);
      if (nan ? nans++ < 2 : wrong++ < 3)
        std::printf("    a %08x%08x b %08x%08x c %08x%08x: GPU %08x%08x, "
                    "simulator %08x%08x\n",
                    in[6 * k + 1], in[6 * k], in[6 * k + 3], in[6 * k + 2],
                    in[6 * k + 5], in[6 * k + 4], g[1], g[0], s[1], s[0]);
    }
    (wrong ? failures : passed) += 1;
    if (wrong || nans)
      std::printf("%-60s %u values, %zu wrong, %zu other NaN\n",
                  f.statement.c_str(), count, wrong, nans);
    std::fflush(stdout);
  }
}

namespace {

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// A file of Inputs/; its first line says how it is launched:
/// "// launch: block=128 cluster=2 grid=2 smem=1024 in=512 out=512".
struct TestProgram {
  std::string name;
  Program program;
  size_t inWords = 1, outWords = 1;
};

TestProgram readProgram(const std::string &path, const std::string &name) {
  std::ifstream in(path);
  TestProgram t;
  t.name = name;
  t.program.text.assign(std::istreambuf_iterator<char>(in), {});
  auto number = [&](const char *key, unsigned missing) {
    std::string head = t.program.text.substr(0, t.program.text.find('\n'));
    size_t at = head.find(std::string(" ") + key + "=");
    return at == std::string::npos
               ? missing
               : unsigned(std::atoi(head.c_str() + at + std::strlen(key) + 2));
  };
  t.program.block = number("block", 32);
  t.program.cluster = number("cluster", 1);
  t.program.grid = number("grid", t.program.cluster);
  t.program.dynamicShared = number("smem", 0);
  t.inWords = number("in", 1024);
  t.outWords = number("out", 1024);
  return t;
}

std::vector<std::string> filesOf(const std::string &folder) {
  std::vector<std::string> names;
  if (DIR *dir = opendir(folder.c_str())) {
    while (dirent *entry = readdir(dir))
      if (std::string(entry->d_name).find(".ptx") != std::string::npos)
        names.push_back(entry->d_name);
    closedir(dir);
  }
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace

void Run::programs(const std::string &folder) {
  for (const std::string &name : filesOf(folder)) {
    TestProgram t = readProgram(folder + "/" + name, name);
    if (t.name.find(settings.match) == std::string::npos)
      continue;
    std::mt19937_64 engine(5);
    unsigned rounds = std::min(1u << std::min(settings.bits, 5u), 32u);
    size_t wrong = 0;
    bool known = true;
    for (unsigned round = 0; round < rounds; ++round) {
      std::vector<Words> arrays = {Words(t.outWords), Words(t.inWords)};
      for (uint32_t &w : arrays[1])
        w = uint32_t(engine());
      std::vector<Words> gpu, sim;
      known = results(t.name, t.program, arrays, gpu, sim);
      if (!known)
        break;
      for (size_t k = 0; k < t.outWords; ++k)
        if (gpu[0][k] != sim[0][k] && wrong++ < 3)
          std::printf("    %s word %zu: GPU %08x, simulator %08x\n",
                      t.name.c_str(), k, gpu[0][k], sim[0][k]);
      // Late and random completion change nothing.
      for (uint64_t seed = 0; seed < 2; ++seed) {
        std::vector<Words> again = arrays;
        std::string error = both.simulate(t.program, again,
                                          seed ? flamia::sim::AsyncMode::Random
                                               : flamia::sim::AsyncMode::Late,
                                          round);
        if (!error.empty() || again[0] != sim[0]) {
          std::printf("    %s: another result with --async=%s %s\n",
                      t.name.c_str(), seed ? "random" : "late", error.c_str());
          ++wrong;
        }
      }
    }
    if (!known)
      continue;
    (wrong ? failures : passed) += 1;
    std::printf("%-44s %u rounds of %zu words, %zu wrong\n", t.name.c_str(),
                rounds, t.outWords, wrong);
    std::fflush(stdout);
  }
}

namespace {

[[noreturn]] void usage() {
  std::puts("usage: sim_on_gpu exhaustive|random FORMS | programs FOLDER "
            "| approx [options], see the file's head");
  std::exit(1);
}

Settings parse(int argc, char **argv) {
  Settings s;
  for (int k = 1; k < argc; ++k) {
    std::string word = argv[k];
    auto value = [&](const char *name, std::string &to) {
      size_t n = std::strlen(name);
      if (word.compare(0, n, name) != 0)
        return false;
      to = word.substr(n);
      return true;
    };
    std::string text;
    if (word == "--sim-only")
      s.simOnly = true;
    else if (value("--bits=", text))
      s.bits = unsigned(std::min(std::atoi(text.c_str()), 32));
    else if (value("--seconds=", text))
      s.seconds = std::atof(text.c_str());
    else if (value("--threads=", text))
      s.threads = unsigned(std::atoi(text.c_str()));
    else if (value("--match=", s.match) || value("--ptx=", s.ptxFolder))
      ;
    else if (s.mode.empty())
      s.mode = word;
    else if (s.forms.empty())
      s.forms = word;
    else
      usage();
  }
  bool needsInput =
      s.mode == "exhaustive" || s.mode == "random" || s.mode == "programs";
  if (!needsInput && s.mode != "approx")
    usage();
  if (needsInput == s.forms.empty())
    usage();
  return s;
}

} // namespace

int main(int argc, char **argv) {
  Settings settings = parse(argc, argv);
  std::unique_ptr<Driver> driver;
  if (!settings.simOnly)
    driver = std::make_unique<Driver>();
  Run run(settings, driver.get());
  if (settings.mode == "exhaustive")
    run.exhaustive(readForms(settings.forms));
  else if (settings.mode == "random")
    run.random(readForms(settings.forms));
  else if (settings.mode == "approx")
    run.approximations();
  else
    run.programs(settings.forms);
  std::printf("%s: %u the same, %u differ, %u unknown to the simulator, %u "
              "refused by the driver, %u not run, %.0f s\n",
              settings.mode.c_str(), run.passed, run.failures, run.unknown,
              run.refused, run.notRun, run.elapsed());
  return run.failures || run.passed == 0;
}
