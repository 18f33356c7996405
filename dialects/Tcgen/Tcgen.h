//===- Tcgen.h - The Tcgen dialect ------------------------------*- C++ -*-===//
//
// Roles, channels and memories of one CTA; see docs/dialect-tcgen.md.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_DIALECTS_TCGEN_TCGEN_H
#define FLAMIA_DIALECTS_TCGEN_TCGEN_H

#include "dialects/Flamia/Flamia.h"

#include "dialects/Tcgen/TcgenDialect.h.inc"
#include "dialects/Tcgen/TcgenEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Tcgen/TcgenTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Tcgen/TcgenOps.h.inc"

namespace flamia::tcgen {
/// The allocation behind a buffer or a part of one; null for anything else.
AllocOp allocOf(mlir::Value buffer);
/// The operations that use a buffer, or a part of it, by whatever name.
llvm::SmallVector<mlir::Operation *> usersOf(mlir::Value buffer);
/// Whether only issuing threads signal a channel whose slots are released. Then
/// only they wait for it.
bool isOfIssuers(ChannelOp channel);
/// Warps of a warpgroup, which together reach all lanes of tensor memory.
constexpr int64_t kGroupWarps = 4;
} // namespace flamia::tcgen

#endif // FLAMIA_DIALECTS_TCGEN_TCGEN_H
