//===- Picture.h - Units of a tile as an SVG --------------------*- C++ -*-===//
#ifndef FLAMIA_MODEL_PICTURE_H
#define FLAMIA_MODEL_PICTURE_H

#include "flamia/Model/Kernel.h"

namespace flamia {
namespace model {

/// One bar a unit, a colour a role, for every model: cycles per 128 x 128 score
/// tile (per row of tiles for kernels without). Lines mark what the law and the
/// replay say. The same models give the same bytes.
std::string picture(llvm::ArrayRef<KernelModel> models);

} // namespace model
} // namespace flamia

#endif // FLAMIA_MODEL_PICTURE_H
