//===- TcgenDialect.td - The Tcgen dialect --------------------*- tablegen -*-===//
//
// What one CTA does, asynchronously. Rationale: docs/dialect-tcgen.md.
//
//===----------------------------------------------------------------------===//

#ifndef TCGEN_DIALECT
#define TCGEN_DIALECT

include "mlir/IR/DialectBase.td"

def Tcgen_Dialect : Dialect {
  let name = "tcgen";
  let cppNamespace = "::flamia::tcgen";
  let summary = "roles, channels and memories of one CTA";
  let description = [{
    The body of a `flamia.kernel` after `flamia-pipeline`: buffers in shared and tensor
    memory, channels (rings of mbarriers), and roles (groups of warps that run
    concurrently and meet only through channels). Vector code inside a role still works
    on tiles, one row a thread.

    A channel is a ring of `slots` buffers' worth of full and empty mbarriers. The
    producer acquires a slot, fills it and publishes it; the consumer waits for it, uses
    it and releases it. Each end counts its own uses, so index and phase follow from
    program order through loops, peeled tiles and conditionals.
  }];
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
  }];
}

#endif // TCGEN_DIALECT
