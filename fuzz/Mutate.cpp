//===- Mutate.cpp - Changes of PTX text -----------------------------------===//
//
// Random bytes rarely get past a parser. These changes keep most statements
// whole, so that decoder and executor see many unusual but parsable programs.
//
//===----------------------------------------------------------------------===//

#include "Targets.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <vector>

using namespace llvm;
using namespace flamia;

namespace {

using Random = std::mt19937_64;

size_t below(Random &random, size_t n) { return n ? random() % n : 0; }

const char *const numbers[] = {"0",
                               "1",
                               "-1",
                               "2",
                               "7",
                               "8",
                               "16",
                               "31",
                               "32",
                               "33",
                               "127",
                               "128",
                               "255",
                               "256",
                               "512",
                               "1024",
                               "1048576",
                               "65535",
                               "0x7fffffff",
                               "0x80000000",
                               "0xffffffff",
                               "4294967296",
                               "0x7fffffffffffffff",
                               "0x8000000000000000",
                               "0xffffffffffffffff",
                               "18446744073709551616",
                               "0f7f800000",
                               "0f00000001",
                               "0d7ff0000000000000",
                               "1.5",
                               "1e400"};

const char *const qualifiers[] = {"b8",
                                  "b16",
                                  "b32",
                                  "b64",
                                  "b128",
                                  "u8",
                                  "u16",
                                  "u32",
                                  "u64",
                                  "s8",
                                  "s16",
                                  "s32",
                                  "s64",
                                  "f16",
                                  "f16x2",
                                  "bf16",
                                  "bf16x2",
                                  "f32",
                                  "f32x2",
                                  "f64",
                                  "pred",
                                  "e4m3x2",
                                  "e5m2x2",
                                  "e2m1x2",
                                  "ue8m0x2",
                                  "tf32",
                                  "global",
                                  "shared",
                                  "shared::cta",
                                  "shared::cluster",
                                  "local",
                                  "param",
                                  "const",
                                  "v2",
                                  "v4",
                                  "v8",
                                  "sync",
                                  "aligned",
                                  "rn",
                                  "rz",
                                  "rp",
                                  "rm",
                                  "rni",
                                  "sat",
                                  "satfinite",
                                  "ftz",
                                  "relu",
                                  "approx",
                                  "full",
                                  "lo",
                                  "hi",
                                  "wide",
                                  "up",
                                  "down",
                                  "bfly",
                                  "idx",
                                  "all",
                                  "any",
                                  "uni",
                                  "ballot",
                                  "cta_group::1",
                                  "cta_group::2",
                                  "kind::f16",
                                  "kind::tf32",
                                  "kind::mxf8f6f4",
                                  "kind::mxf4nvf4",
                                  "block_scale",
                                  "scale_vec::1X",
                                  "x1",
                                  "x2",
                                  "x4",
                                  "x64",
                                  "x128",
                                  "32x32b",
                                  "16x256b",
                                  "m16n8k16",
                                  "1d",
                                  "2d",
                                  "5d",
                                  "tile",
                                  "im2col",
                                  "multicast::cluster",
                                  "release",
                                  "acquire",
                                  "relaxed",
                                  "cluster",
                                  "gpu",
                                  "sys",
                                  "parity",
                                  "expect_tx",
                                  "noComplete"};

/// A word of letters, digits, '_', '$', '%': [begin, end).
bool isWord(char c) { return isAlnum(c) || c == '_' || c == '$' || c == '%'; }

struct Span {
  size_t begin, end;
};

std::vector<Span> words(StringRef text) {
  std::vector<Span> found;
  for (size_t i = 0; i < text.size();) {
    if (!isWord(text[i])) {
      ++i;
      continue;
    }
    size_t begin = i;
    while (i < text.size() && isWord(text[i]))
      ++i;
    found.push_back({begin, i});
  }
  return found;
}

std::vector<Span> linesOf(StringRef text) {
  std::vector<Span> found;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    end = end == StringRef::npos ? text.size() : end + 1;
    found.push_back({begin, end});
    begin = end;
  }
  return found;
}

std::string slice(const std::string &text, Span s) {
  return text.substr(s.begin, s.end - s.begin);
}

/// One change.
void change(std::string &text, Random &random) {
  std::vector<Span> lines = linesOf(text), all = words(text);
  if (lines.empty() || all.empty())
    return;
  Span line = lines[below(random, lines.size())];
  Span other = lines[below(random, lines.size())];
  Span word = all[below(random, all.size())];
  switch (below(random, 9)) {
  case 0: // Delete a line.
    text.erase(line.begin, line.end - line.begin);
    break;
  case 1: // Copy a line elsewhere.
    text.insert(other.begin, slice(text, line));
    break;
  case 2: { // Replace a line by another.
    std::string copy = slice(text, other);
    text.replace(line.begin, line.end - line.begin, copy);
    break;
  }
  case 3: // Replace a word by another of the text.
    text.replace(word.begin, word.end - word.begin,
                 slice(text, all[below(random, all.size())]));
    break;
  case 4: // Replace a word by a number.
    text.replace(word.begin, word.end - word.begin,
                 numbers[below(random, std::size(numbers))]);
    break;
  case 5: // Replace a word by a qualifier.
    text.replace(word.begin, word.end - word.begin,
                 qualifiers[below(random, std::size(qualifiers))]);
    break;
  case 6: // Put in a qualifier.
    text.insert(word.end, std::string(".") +
                              qualifiers[below(random, std::size(qualifiers))]);
    break;
  case 7: // Delete a word and a character before it.
    word.begin -= word.begin > 0;
    text.erase(word.begin, word.end - word.begin);
    break;
  default: { // Exchange, delete or double a character.
    size_t at = below(random, text.size());
    static const char marks[] = ";,.{}[]()|!@:+-<>\"/*_%";
    if (random() & 1)
      text[at] = marks[below(random, sizeof(marks) - 1)];
    else
      text.insert(at, 1, marks[below(random, sizeof(marks) - 1)]);
  }
  }
}

} // namespace

std::string fuzz::mutatePtx(std::string text, Random &random) {
  for (size_t n = 1 + below(random, 3); n > 0; --n)
    change(text, random);
  return text;
}

std::string fuzz::crossPtx(std::string text, StringRef other, Random &random) {
  std::vector<Span> from = linesOf(other);
  for (size_t n = 1 + below(random, 4); n > 0 && !from.empty(); --n) {
    std::vector<Span> lines = linesOf(text);
    if (lines.empty())
      break;
    Span take = from[below(random, from.size())];
    text.insert(lines[below(random, lines.size())].begin,
                other.slice(take.begin, take.end).str());
  }
  return text;
}
