//===- Replay.cpp - Runs inputs through the fuzz targets ------------------===//
//
// flamia-fuzz-replay ptx|files [--mutate=N] [--seed=S] PATH...
//
// Runs every file (folders: every file in them) through a target, as built by
// any compiler: what the fuzzers once found stays fixed. --mutate also runs N
// changed copies of each input (PTX only). Reaching the end is the test.
//
//===----------------------------------------------------------------------===//

#include "Targets.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <vector>

using namespace llvm;
using namespace flamia;

static int fail(const Twine &message) {
  errs() << "flamia-fuzz-replay: error: " << message << "\n";
  return 1;
}

int main(int argc, char **argv) {
  ArrayRef<const char *> words(argv + 1, size_t(argc - 1));
  if (words.size() < 2 ||
      !is_contained({StringRef("ptx"), StringRef("files")}, words[0]))
    return fail("expected ptx or files, then inputs");
  bool ptx = words[0] == StringRef("ptx");
  unsigned copies = 0;
  uint64_t seed = 1;
  std::vector<std::string> paths;
  for (StringRef word : words.drop_front()) {
    if (word.consume_front("--mutate=")) {
      if (word.getAsInteger(10, copies) || !ptx)
        return fail("malformed --mutate");
    } else if (word.consume_front("--seed=")) {
      if (word.getAsInteger(10, seed))
        return fail("malformed --seed");
    } else if (sys::fs::is_directory(word)) {
      std::error_code failure;
      for (sys::fs::directory_iterator it(word, failure), end;
           it != end && !failure; it.increment(failure))
        paths.push_back(it->path());
    } else {
      paths.push_back(word.str());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const std::string &path : paths) {
    auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                        /*RequiresNullTerminator=*/false);
    if (!buffer)
      return fail("cannot read '" + path + "': " + buffer.getError().message());
    inputs.push_back((*buffer)->getBuffer().str());
  }
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same every time.
  std::mt19937_64 random(seed);
  size_t executed = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!ptx) {
      fuzz::runFiles(inputs[k]);
      ++executed;
      continue;
    }
    fuzz::runPtx(inputs[k]);
    ++executed;
    for (unsigned n = 0; n < copies; ++n, ++executed) {
      std::string text = inputs[k];
      if (random() % 4 == 0)
        text = fuzz::crossPtx(text, inputs[random() % inputs.size()], random);
      fuzz::runPtx(fuzz::mutatePtx(std::move(text), random));
    }
  }
  outs() << inputs.size() << " inputs, " << executed << " executions\n";
  return inputs.empty() ? fail("no inputs") : 0;
}
