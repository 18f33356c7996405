//===- Picture.cpp - Units of a tile as an SVG ----------------------------===//

#include "flamia/Model/Picture.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace flamia {
namespace model {

using llvm::StringRef;

namespace {
constexpr double width = 640, left = 90, barHeight = 16, gap = 6;

/// Sizes of one kernel's part.
struct Panel {
  const KernelModel *model = nullptr;
  const Counts *counts = nullptr;
  std::vector<Unit> units;
  double longest = 0; ///< Cycles at the right edge.
  double height() const { return 64 + (barHeight + gap) * units.size(); }
};
} // namespace

static Panel layOut(const KernelModel &model) {
  Panel p;
  p.model = &model;
  p.counts = model.hasTiles() ? &model.counts.tile : &model.counts.row;
  UnitCycles units = p.counts->units();
  p.longest = std::max(
      {1.0, units.bound(),
       model.hasTiles() ? std::max(model.overlapped, model.chain) : 0});
  for (unsigned u = 0; u < numUnits; ++u)
    if (units.cycles[u] >= 0.01 * units.bound() && units.cycles[u] >= 0.5)
      p.units.push_back(Unit(u));
  return p;
}

static StringRef colourOf(StringRef role, size_t number) {
  StringRef kind = role.split(' ').first;
  if (kind == "vector")
    return number % 2 ? "#7aa6c2" : "#4878a8";
  return llvm::StringSwitch<StringRef>(kind)
      .Case("mma", "#c8553d")
      .Case("load", "#6b9b6b")
      .Case("all", "#8a6f9e")
      .Default("#9a9a9a");
}

static void text(llvm::raw_ostream &os, double x, double y, const char *anchor,
                 const llvm::Twine &content) {
  os << llvm::formatv("<text x=\"{0:f1}\" y=\"{1:f1}\" text-anchor=\"{2}\">", x,
                      y, anchor)
     << content << "</text>\n";
}

/// A vertical line with a caption below the bars.
static void mark(llvm::raw_ostream &os, const Panel &p, double top,
                 double cycles, const char *dash, double captionY,
                 StringRef caption) {
  double x = left + (width - left - 20) * cycles / p.longest;
  double bottom = top + (barHeight + gap) * p.units.size();
  os << llvm::formatv(
      "<line x1=\"{0:f1}\" y1=\"{1:f1}\" x2=\"{0:f1}\" "
      "y2=\"{2:f1}\" stroke=\"#222\" stroke-dasharray=\"{3}\"/>\n",
      x, top - 2, bottom, dash);
  text(os, x, captionY, x > width / 2 ? "end" : "start",
       llvm::formatv("{0} {1:f0}", caption, cycles).str());
}

static void draw(llvm::raw_ostream &os, const Panel &p, double y) {
  const KernelModel &m = *p.model;
  text(os, 8, y + 14, "start",
       llvm::formatv("{0} ({1}), modelled cycles per {2}", m.counts.kernel,
                     m.counts.arch, m.hasTiles() ? "score tile" : "row")
           .str());
  double scale = (width - left - 20) / p.longest, top = y + 24;
  for (size_t k = 0; k < p.units.size(); ++k) {
    Unit unit = p.units[k];
    double barY = top + (barHeight + gap) * k, x = left, total = 0;
    text(os, left - 6, barY + 12, "end", nameOf(unit));
    for (size_t r = 0; r < p.counts->roles.size(); ++r) {
      const RoleCounts &role = p.counts->roles[r];
      double cycles = role.units[unit];
      if (cycles <= 0)
        continue;
      total += cycles;
      os << llvm::formatv("<rect x=\"{0:f1}\" y=\"{1:f1}\" width=\"{2:f1}\" "
                          "height=\"{3:f1}\" fill=\"{4}\"><title>{5}: {6:f0}"
                          "</title></rect>\n",
                          x, barY, cycles * scale, barHeight,
                          colourOf(role.name, r), role.name, cycles);
      x += cycles * scale;
    }
    bool inside = x + 40 > width;
    text(os, inside ? x - 4 : x + 4, barY + 12, inside ? "end" : "start",
         llvm::formatv("{0:f0}", total).str());
  }
  double below = top + (barHeight + gap) * p.units.size();
  if (m.hasTiles()) {
    mark(os, p, top, m.overlapped, "4 3", below + 10,
         "as overlapped as published kernels");
    mark(os, p, top, m.chain, "1 2", below + 24,
         "in the order of the channels");
  }
}

std::string picture(llvm::ArrayRef<KernelModel> models) {
  std::vector<Panel> panels;
  double height = 10;
  for (const KernelModel &m : models) {
    panels.push_back(layOut(m));
    height += panels.back().height();
  }
  std::string svg;
  llvm::raw_string_ostream os(svg);
  os << llvm::formatv(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:f0}\" "
      "height=\"{1:f0}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"{0:f0}\" height=\"{1:f0}\" "
      "fill=\"#fff\"/>\n",
      width, height);
  double y = 6;
  for (const Panel &p : panels) {
    draw(os, p, y);
    y += p.height();
  }
  os << "</svg>\n";
  return svg;
}

} // namespace model
} // namespace flamia
