//===- RolePasses.td - Passes from tile programs to roles -----*- tablegen -*-===//
//
// Roles, channels and memory: Flamia dialect in, Tcgen dialect out. Part of
// Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_ROLE_PASSES
#define FLAMIA_ROLE_PASSES

include "mlir/Pass/PassBase.td"

def JamItemsPass : Pass<"flamia-jam-items", "::flamia::KernelOp"> {
  let summary = "run several work items side by side in one CTA (rule R5)";
  let description = [{
    A kernel with `flamia.slots = "y"` and a parameter `slots` bound to n > 1 runs n
    neighbouring work items along that axis in each CTA: unroll-and-jam of the work item.
    Scalars and tile loads that do not depend on the item are done once; everything else is
    written for item after item, operation by operation, with the item's number in
    `flamia.slot`, from which `flamia-assign-roles` gives each item a vector role of its own.
    Loops whose bounds do not depend on the item become one loop. The grid's extent along
    the axis is divided by n. Numbers do not change.

    That the items exist and may share loads must be known: `flamia.multiple_of = "slots"`
    on a division of two extents (query heads by kv heads) says that the quotient is exact
    and a multiple of n. Then the item's index divided by it is the same for all items
    of a CTA. The launch record repeats it (`flamia.requires`), and a launch checks it.

    Items must store to different places, which is proven from their indices, and load
    nothing that is stored. Where that or the extent is not known, where an operation works
    on all threads or has another effect, the kernel stays as it is, with a remark. A
    missing axis or an unbound parameter is an error.

    Before, with `slots = 2`:

    ```mlir
    flamia.kernel @copy(%x: memref<128x16x128xbf16>, %y: memref<128x16x128xbf16>) parameters {slots = 2 : i64} grid(1, 16) attributes {flamia.slots = "y"} {
      %c0 = arith.constant 0 : index
      %head = flamia.program_id y
      %t = flamia.load %x[%c0, %head, %c0] : memref<128x16x128xbf16> -> tensor<128x128xbf16>
      flamia.store %t, %y[%c0, %head, %c0] : tensor<128x128xbf16>, memref<128x16x128xbf16>
      flamia.return
    }
    ```

    After, with `grid(1, 8)`:

    ```mlir
    %pair = flamia.program_id y
    %head0 = arith.muli %pair, %c2 : index
    %head1 = arith.addi %head0, %c1 : index
    %t0 = flamia.load %x[%c0, %head0, %c0] {flamia.slot = 0 : i64} : memref<128x16x128xbf16> -> tensor<128x128xbf16>
    %t1 = flamia.load %x[%c0, %head1, %c0] {flamia.slot = 1 : i64} : memref<128x16x128xbf16> -> tensor<128x128xbf16>
    flamia.store %t0, %y[%c0, %head0, %c0] {flamia.slot = 0 : i64} : tensor<128x128xbf16>, memref<128x16x128xbf16>
    flamia.store %t1, %y[%c0, %head1, %c0] {flamia.slot = 1 : i64} : tensor<128x128xbf16>, memref<128x16x128xbf16>
    ```
  }];
  let dependentDialects = ["::flamia::FlamiaDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def AssignRolesPass : Pass<"flamia-assign-roles", "::flamia::KernelOp"> {
  let summary = "give every tile operation the role that executes it";
  let description = [{
    Sets `flamia.role` to `"load"` (tile loads by tensor map), `"mma"` (products) or
    `"vector"` (everything else on tiles, loads of row and column vectors and of what a
    tensor map cannot load, stores). With
    `opt-level=0` everything has the role `"vector"`. A role that is given already is kept;
    it must be the natural one or `"vector"`. Scalars, control flow and transposes get none.

    Needs static shapes and no control flow but `scf.for` and `scf.if`; anything else, and a
    transpose that is no operand of a product, is an error. Numbers do not change.

    Before, and after with `opt-level=2`:

    ```mlir
    %t = flamia.load %x[%row, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
    ```

    ```mlir
    %t = flamia.load %x[%row, %c0] {flamia.role = "load"} : memref<?x128xbf16> -> tensor<128x128xbf16>
    ```
  }];
  let options = [
    Option<"optLevel", "opt-level", "unsigned", /*default=*/"2",
           "0: one role for everything; 1 to 3: loads, products and vector code apart">];
}

def PipelinePass : Pass<"flamia-pipeline", "::flamia::KernelOp"> {
  let summary = "turn a tile program into roles joined by channels";
  let description = [{
    Each role becomes a `tcgen.role` with a copy of the control flow and its own operations.
    A value that crosses roles becomes a buffer and a channel:

    | from, to | buffer | signalled by |
    |---|---|---|
    | load, product or vector code | shared memory, a ring inside loops | TMA |
    | product, vector code | tensor memory | mma |
    | vector code, left operand | tensor memory | threads |
    | vector code, right operand | shared memory | threads |
    | accumulator that both change | one buffer in tensor memory that changes hands | both |

    A product that needs only loads is issued before those of its block that wait for vector
    code, and, followed in its loop by such, one iteration ahead (rule R4 of
    docs/dialect-tcgen.md). This needs more memory; where a trial shows that there is not
    enough, products are issued in program order, with a remark. Of several work items
    (`flamia-jam-items`) each one's next product of loads stands before its product with
    vector code; where results fill tensor memory, what vector code makes lies in another
    item's results, after a signal that these were read. Loads of one shape that only
    products use share a ring from one loop to the next where rings would not fit otherwise.
    With one role for everything the same happens in program order, and every step is waited
    for. Where shared or tensor memory could not hold all buffers, values of one shape that
    follow each other take turns in one. In kernels without products, loads of one shape in loops that follow
    each other share a ring: it stays full from one loop to the next. A column vector that lies
    where scales loaded beside it lie is a bulk copy into shared memory.

    Needs `flamia-assign-roles`. What it cannot do is an error that says so; an accumulator
    that cannot stay in tensor memory passes through registers, with a remark. Numbers do not
    change.
  }];
  let options = [
    Option<"maxStages", "max-stages", "int64_t", /*default=*/"4",
           "1 to 64: slots of a ring of loads inside a loop, before memory is allocated">];
  let dependentDialects = ["::flamia::FlamiaDialect", "::flamia::tcgen::TcgenDialect",
                           "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def SkipRescalingPass : Pass<"flamia-skip-rescaling", "::flamia::KernelOp"> {
  let summary = "leave accumulators alone where a warp multiplies all its rows by 1";
  let description = [{
    In a loop, a tile that is read from its buffer, multiplied by one factor a row and
    written back, with nothing in between, is left as it is if no row of the warp has a factor
    other than 1 (a vote of the warp). An online softmax with integer references rescales its
    output in few tiles. Numbers do not change: x times 1 is x.

    Needs roles (`flamia-pipeline`); without any it does nothing.

    Before:

    ```mlir
    %o = tcgen.read %acc[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    %r = arith.mulf %o, %alphas : tensor<128x128xf32>
    tcgen.write %r, %acc[%c0] : tensor<128x128xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
    ```

    After:

    ```mlir
    %differs = tcgen.any_differs %alpha from 1.000000e+00 : tensor<128x1xf32>
    scf.if %differs {
      %o = tcgen.read %acc[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
      %r = arith.mulf %o, %alphas : tensor<128x128xf32>
      tcgen.write %r, %acc[%c0] : tensor<128x128xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
    }
    ```
  }];
  let dependentDialects = ["::flamia::FlamiaDialect", "::flamia::tcgen::TcgenDialect",
                           "::mlir::scf::SCFDialect"];
}

def ShareColumnsPass : Pass<"flamia-share-columns", "::flamia::KernelOp"> {
  let summary = "let two warpgroups share the columns of every tile";
  let description = [{
    Each scheduler of an SM has one warp of a warpgroup. One warp waits for tensor memory,
    converts and takes exponentials one after the other; two use the units side by side. The
    role with vector code becomes one of eight warps: a warpgroup reads, computes and
    writes its 64 of 128 columns (`tcgen.group`, `tcgen.part`), channels count the arrivals of
    both. Blocks of 32 columns stay whole, so dynamic scales need no exchange. Row vectors are
    loaded and computed in both. Code outside loops that needs whole rows, or stores them,
    goes to one warpgroup; several pieces of it are dealt out by their work.

    Kernels without a loop of such code, without products or with products in the same role
    (`-O0`) stay as they are. Where a loop needs whole rows (a softmax does), or memory does
    not suffice, one warpgroup does everything, with a remark. Numbers do not change.

    Before:

    ```mlir
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.wait %scores
      %s = tcgen.read %buffer[%slot] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
      tcgen.release %scores[%slot] by threads
      %e = math.exp2 %s : tensor<128x128xf32>
    }
    ```

    After, in a role of 8 instead of 4 warps, where a slot of the channel is released by 8
    arrivals and `%first` is 64 times `tcgen.group`:

    ```text
    %mine = tcgen.part %buffer from %first : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.wait %scores
      %s = tcgen.read %mine[%slot] : !tcgen.buffer<tmem, lanes, 1 x 128x64xf32> -> tensor<128x64xf32>
      tcgen.release %scores[%slot] by threads
      %e = math.exp2 %s : tensor<128x64xf32>
    }
    ```
  }];
  let dependentDialects = ["::flamia::FlamiaDialect", "::flamia::tcgen::TcgenDialect",
                           "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def SplitColumnsPass : Pass<"flamia-split-columns", "::flamia::KernelOp"> {
  let summary = "write vector code in chunks of 32 columns where registers are short";
  let description = [{
    A thread holds one row of every tile, so a tile of 128 columns of f32 takes 128 of its 255
    registers. Between two steps of channels, where tiles that are live at once take more
    than `max-registers`, tile operations become operations on chunks of 32 columns, ordered
    chunk by chunk: a chunk is read from its buffer just before it is used
    (`tcgen.read ... col`), reductions add up chunk after chunk in their own order, and what
    needs whole rows follows the last chunk. The buffer is released behind the last chunk
    read. Where the registers can hold all that is read, reading comes first, so that the
    release comes early. All other code stays as it is.

    Needs roles (`flamia-pipeline`); without any it does nothing. Numbers do not change.

    Before, where `%p` is live and the limit is 200:

    ```mlir
    %d = tcgen.read %dp[%slot] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    tcgen.release %channel[%slot] by threads
    %ds = arith.mulf %p, %d : tensor<128x128xf32>
    ```

    After, for the first chunk:

    ```mlir
    %d0 = tcgen.read %dp[%slot] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x32xf32>
    %p0 = tcgen.slice %p col 0 : tensor<128x128xf32> -> tensor<128x32xf32>
    %ds0 = arith.mulf %p0, %d0 : tensor<128x32xf32>
    ```
  }];
  let options = [
    Option<"maxRegisters", "max-registers", "int64_t", /*default=*/"192",
           "1 or more: 32-bit registers of a thread for tiles; the rest is for addresses and scalars">];
  let dependentDialects = ["::flamia::FlamiaDialect", "::flamia::tcgen::TcgenDialect",
                           "::mlir::arith::ArithDialect"];
}

def ReadMaxPass : Pass<"flamia-read-max", "::flamia::KernelOp"> {
  let summary = "take the maxima of rows while reading tensor memory (sm_103a)";
  let description = [{
    A tile of f32 that is read whole from tensor memory and whose row maximum is taken
    becomes one `tcgen.read_max`: `tcgen05.ld.red` of sm_103a. Part of the pipeline for that
    architecture only; `convert-flamia-to-nvvm` refuses the operation for others. Numbers do
    not change.

    Needs roles (`flamia-pipeline`); without any it does nothing. Tiles that are masked, or
    read in chunks (`flamia-split-columns`), stay.

    Before:

    ```mlir
    %s = tcgen.read %b[%slot] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    %m = flamia.reduce max %s : tensor<128x128xf32> -> tensor<128x1xf32>
    ```

    After:

    ```mlir
    %s, %m = tcgen.read_max %b[%slot] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>, tensor<128x1xf32>
    ```
  }];
  let dependentDialects = ["::flamia::FlamiaDialect", "::flamia::tcgen::TcgenDialect"];
}

def CopyOperandsPass : Pass<"flamia-copy-operands", "::flamia::KernelOp"> {
  let summary = "keep operands that products of a loop share in tensor memory";
  let description = [{
    A product with both operands in shared memory reads all of both; with its `a` in tensor
    memory it reads `b` alone. An 8-bit `a` that a load brings before a loop, and of which
    products in the loop contract the columns, is copied once (`tcgen.copy_operand`), in front
    of the loop or of the branch with the loop's first products; they read the copy. As many operands as
    `flamia-allocate-memory` finds columns for, in program order: none where results fill
    tensor memory, or where buffers would have to share columns in an order that only the tensor
    pipe keeps, and without copies need not. Numbers do not change.

    Before:

    ```mlir
    %slot = tcgen.wait %loaded
    scf.for %i = %c0 to %c8 step %c1 {
      tcgen.mma %s[%c0], %q[%slot], %k[%c0] scales %sq[%c0], %sk[%c0] major k accumulate %false
        : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>,
          !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>,
          !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>,
          !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>,
          !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
    }
    ```

    After: `tcgen.copy_operand %q[%slot], %rows[%c0]` in front of the loop, and
    `%rows[%c0]` in the place of `%q[%slot]` in the product.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def AllocateMemoryPass : Pass<"flamia-allocate-memory", "::flamia::KernelOp"> {
  let summary = "place buffers in shared memory and in the 512 tensor memory columns";
  let description = [{
    Gives every `tcgen.alloc` an `offset` and the kernel the attributes `tcgen.smem_bytes`
    (dynamic shared memory with at least 1024 bytes for barriers at `tcgen.barrier_offset`),
    `tcgen.tmem_columns` (a power of two, or 0) and `tcgen.threads`. Operand images start at
    multiples of 1024 bytes, scales at 128; accumulators at multiples of 32 columns, scales
    at 4.

    Runs the roles' channels for several small launches first. Roles that wait for each
    other for ever, a signal that may be lost, and a wrong number of arrivals or bytes are
    errors that name the channels.

    Given offsets are kept. Buffers at given offsets that share space must be used in an
    order that signals and waits enforce (rule R8); otherwise that is an error that names
    both. When a memory is full, rings of loads lose slots (with a remark), then buffers
    whose order is proven share space. The order in which the tensor pipe executes what one
    thread issued, of which PTX promises little, counts only where columns are short
    otherwise; the kernel then has the attribute `tcgen.needs_pipe_order`. Beyond 232448 bytes or 512 columns: an error with all
    sizes. Numbers do not change.

    A kernel without products waits for memory, so two of its CTAs should share an SM: rings
    lose slots down to two (without a remark) until it takes half of the shared memory. It
    also gets room, `tcgen.staging_offset`, in which rows of tiles become whole lines on their
    way to global memory (passes/Staging.h).
  }];
}

#endif // FLAMIA_ROLE_PASSES
