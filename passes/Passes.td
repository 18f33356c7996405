//===- Passes.td - flamia's passes, in the order they run -----*- tablegen -*-===//
//
// The table of contents of the compiler. Each pass lives in the file named like
// it, with test/Passes/<name>.mlir (what it does) and <name>-errors.mlir (what it
// refuses).
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES
#define FLAMIA_PASSES

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Value level: Flamia dialect in, Flamia dialect out
//===----------------------------------------------------------------------===//

#endif // FLAMIA_PASSES
