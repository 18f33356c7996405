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

def SpecializePass : Pass<"flamia-specialize", "::mlir::ModuleOp"> {
  let summary = "bind compile-time parameters and every extent that follows from them";
  let description = [{
    Each kernel declares `parameters {head_dim = [128, 64]}`: names, the default value
    (the first) and all others that may be bound. The pass replaces `flamia.param` by
    constants, binds extents named like a parameter in `flamia.dims`, finds every other
    `?` of a tile type by unification over the ops that relate extents (a dot's K, equal
    operand types, a loop's iteration arguments...), and folds what became constant.
    Arguments whose `flamia.only` does not hold are removed, with what `flamia.depends` of
    others says of them.

    Needs nothing. An unknown parameter, a value out of range, extents that contradict
    each other or that nothing determines, a use of an argument to remove are errors with a location. Numbers do not change.

    Before, with `params="n=64"`:

    ```mlir
    flamia.kernel @scale(%x: memref<?x?xf32> {flamia.dims = ["rows", "n"]}) parameters {n = [128, 64]} grid(x[0] ceildiv 128) {
      %c0 = arith.constant 0 : index
      %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x?xf32>
      %d = arith.addf %t, %t : tensor<128x?xf32>
      flamia.store %d, %x[%c0, %c0] : tensor<128x?xf32>, memref<?x?xf32>
      flamia.return
    }
    ```

    After:

    ```mlir
    flamia.kernel @scale(%x: memref<?x64xf32> {flamia.dims = ["rows", "n"]}) parameters {n = 64 : i64} grid(x[0] ceildiv 128) {
      %c0 = arith.constant 0 : index
      %t = flamia.load %x[%c0, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
      %d = arith.addf %t, %t : tensor<128x64xf32>
      flamia.store %d, %x[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
      flamia.return
    }
    ```
  }];
  let options = [
    Option<"params", "params", "std::string", /*default=*/"",
           "comma-separated name=value bindings; others take their default">];
  let dependentDialects = ["::flamia::FlamiaDialect", "::mlir::arith::ArithDialect"];
}

def InsertSafeguardsPass : Pass<"flamia-insert-safeguards", "::mlir::ModuleOp"> {
  let summary = "use original operands where a shared scale would leak";
  let description = [{
    Changes numerical results: the rewritten products round differently.

    For each leak that `flamia-check-causality` would report as a shared scale, where the
    leaking operand is a `flamia.load_scaled` of an argument with `flamia.original`: splits
    the key loop into the (at most four, first or last) iterations whose tile may straddle
    the diagonal and those proven strictly past, and in the straddling ones replaces the
    scaled operand by a load of the original and the other operand's `flamia.quantize` by
    `arith.truncf` to its 16-bit type (or its load by one of its own original). Reductions
    of the values that were quantized see the rounded ones, and `flamia.round_like`
    follows. Other products of the same iteration that read the exchanged payloads are
    exchanged too, and so are vectors with `flamia.original_with` in what is computed from
    them. A `flamia.original_factor` multiplies the product's rows or columns (in an fma, if
    something is subtracted), or, where tokens are summed, the other operand before its
    last rounding. The straddling iterations become straight-line code if it is certain that they
    run, else a loop of their own. Then conditions of `flamia.mask` that keep every element
    go, in all loops.

    Needs specialized kernels, and says so. Leaks that have no original stay, for
    `flamia-check-causality` to report. Runs canonicalization at the end.

    Before:

    ```mlir
    !p = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    !v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>
    flamia.kernel @pv(%w: memref<?x128xf32>, %v: memref<?x64xf8E4M3FN> {flamia.original = "v_bf16"}, %vs: memref<?x?x512xf8E8M0FNU>,
        %v_bf16: memref<?x64xbf16>, %o: memref<?x64xf32> {flamia.depends = {v = "<=", w = "any"}}) grid(1) {
      %c0 = arith.constant 0 : index
      %f0 = arith.constant 0.0 : f32
      %zero = flamia.full %f0 : tensor<128x64xf32>
      %x = flamia.load %w[%c0, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
      %seen = flamia.mask %x rows %c0 cols %c0 causal : tensor<128x128xf32>
      %e = math.exp2 %seen : tensor<128x128xf32>
      %p = flamia.quantize %e exponent 0 : tensor<128x128xf32> -> !p
      %t = flamia.load_scaled %v[%c0, %c0], %vs[%c0, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
      %r = flamia.dot %p, %t, %zero : !p, !v -> tensor<128x64xf32>
      flamia.store %r, %o[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
      flamia.return
    }
    ```

    After, from `%e` on:

    ```mlir
    %pb = arith.truncf %e : tensor<128x128xf32> to tensor<128x128xbf16>
    %t = flamia.load %v_bf16[%c0, %c0] : memref<?x64xbf16> -> tensor<128x64xbf16>
    %r = flamia.dot %pb, %t, %zero : tensor<128x128xbf16>, tensor<128x64xbf16> -> tensor<128x64xf32>
    flamia.store %r, %o[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
    ```
  }];
  let dependentDialects = ["::flamia::FlamiaDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
}

def PeelPartialTilesPass : Pass<"flamia-peel-partial-tiles", "::mlir::ModuleOp"> {
  let summary = "run the tiles that a mask cuts apart from the full ones (rule R6)";
  let description = [{
    Where at most two iterations at one end of a loop hold all tiles that its masks cut, and
    the others are proven full, runs those iterations apart (straight-line if it is certain
    that they run, else as a loop) and removes the masks of the rest. Numbers do not
    change. A loop for which that cannot be proven is left alone: a window has partial tiles
    at both ends, for instance.

    Before:

    ```mlir
    flamia.kernel @sum(%x: memref<?x128xf32>, %y: memref<128x1xf32>) grid(1) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c128 = arith.constant 128 : index
      %f0 = arith.constant 0.0 : f32
      %none = flamia.full %f0 : tensor<128x1xf32>
      %keys = flamia.dim %x[0] : memref<?x128xf32>
      %tiles = arith.ceildivui %keys, %c128 : index
      %max = scf.for %j = %c0 to %tiles step %c1 iter_args(%m = %none) -> (tensor<128x1xf32>) {
        %key = arith.muli %j, %c128 : index
        %t = flamia.load %x[%key, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
        %seen = flamia.mask %t rows %c0 cols %key limit %keys : tensor<128x128xf32>
        %top = flamia.reduce max %seen : tensor<128x128xf32> -> tensor<128x1xf32>
        %next = arith.maxnumf %m, %top : tensor<128x1xf32>
        scf.yield %next : tensor<128x1xf32>
      }
      flamia.store %max, %y[%c0, %c0] : tensor<128x1xf32>, memref<128x1xf32>
      flamia.return
    }
    ```

    After: a loop from 0 to `max(tiles - 1, 0)` without the mask, then one from there to
    `tiles` with it.
  }];
  let dependentDialects = ["::flamia::FlamiaDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def FoldScalesPass : Pass<"flamia-fold-scales", "::mlir::ModuleOp"> {
  let summary = "move token-local powers of two to where they cost nothing";
  let description = [{
    A product over tokens cannot apply scales of single tokens. The pass moves them, and
    other powers of two, along the dataflow: into the other operand before it is quantized,
    through products, sums, masks, exp2 (as a summand), rounding to 16 bits, into scale
    bytes and vectors that arguments with `flamia.folded` hold, and into the `shift` of a
    dynamic quantization. docs/fold-scales.md has the rules. Per-token vectors along columns
    (a transposed load) become loads of such arguments too. Of all placements the cheapest
    is taken; a multiplication by 1 goes.

    Numbers: exact where nothing leaves the range, that is, where scale bytes stay within
    0 to 254, no fp32 or 16-bit value becomes subnormal or infinite, and no element of a
    quantized block is 2^13 below the block's largest (hence subnormal in the payload) before
    or after; there folding decides how it is rounded.
    Besides, a product scaled by a vector minus a vector becomes one fma, which rounds once.

    What is relative to a maximum over several tokens is used only where all of them are
    proven to reach the outputs (`flamia.depends`); elsewhere exponents are absolute.

    Needs specialized kernels, and says so. A product whose scales would cost an operation
    per element, or that no declared argument serves, is left alone, with a remark that says
    which argument would help; an operation per element is spent where a factor 2^exponent
    is declared, with a remark. Runs canonicalization if anything changed. Token-local scales of
    NVFP4 in a product over tokens are an error: they are no powers of two.

    Before:

    ```mlir
    !k = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x128>
    !g = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    flamia.kernel @dq(%x: memref<?x128xf32>, %d: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>,
        %factor: memref<?x?x128xf32> {flamia.folded = {exponent = "e(d) - max128(e(d))"}}, %top: memref<?x?xf32> {flamia.folded = {exponent = "max128(e(d))"}},
        %y: memref<?x128xf32>) grid(1) {
      %c0 = arith.constant 0 : index
      %f0 = arith.constant 0.0 : f32
      %zero = flamia.full %f0 : tensor<128x128xf32>
      %unit = arith.constant dense<0.00390625> : tensor<128x128xf32>
      %t = flamia.load %x[%c0, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
      %e = math.exp2 %t : tensor<128x128xf32>
      %p = arith.mulf %e, %unit : tensor<128x128xf32>
      %p8 = flamia.quantize %p : tensor<128x128xf32> -> !g
      %k = flamia.load_scaled %d[%c0, %c0, %c0], %s[%c0, %c0] along cols : memref<?x?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !k
      %r = flamia.dot %p8, %k, %zero : !g, !k -> tensor<128x128xf32>
      flamia.store %r, %y[%c0, %c0] : tensor<128x128xf32>, memref<?x128xf32>
      flamia.return
    }
    ```

    After, from `%e` on (with a remark about the multiplication that `%factor` costs):

    ```mlir
    %f = flamia.load %factor[%c0, %c0, %c0] : memref<?x?x128xf32> -> tensor<1x128xf32>
    %n = flamia.load %top[%c0, %c0] : memref<?x?xf32> -> tensor<1x1xf32>
    %k = flamia.load_payload %d[%c0, %c0, %c0]
       : memref<?x?x128xf8E4M3FN> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 128x128>
    %fs = flamia.broadcast %f : tensor<1x128xf32> -> tensor<128x128xf32>
    %p = arith.mulf %e, %fs : tensor<128x128xf32>
    %p8 = flamia.quantize %p shift(%n : tensor<1x1xf32>) shift_by -8 : tensor<128x128xf32>
       -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    %r = flamia.dot %p8, %k, %zero
       : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>,
         !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 128x128> -> tensor<128x128xf32>
    ```
  }];
  let dependentDialects = ["::flamia::FlamiaDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def CheckCausalityPass : Pass<"flamia-check-causality", "::mlir::ModuleOp"> {
  let summary = "prove that outputs depend on no token they must not see, or name the leak";
  let description = [{
    For each output with `flamia.depends`, follows the dataflow from the sources and compares
    tile starts as affine expressions (docs/dialect-flamia.md says how). The IR does not
    change. A dependence that is not proven harmless is an error at the product, with notes
    at the load and the store; it names the operand, the scale block and the tokens:

    ```text
    attention.mlir:111:13: error: output 'o' may depend on tokens of 'v_data' after their own: operand 'b' of this product shares a scale over 32 tokens (scale block 32x32) and its tile is not proven strictly past
    attention.mlir:108:10: note: 'v_data' is loaded here: tokens begin + 128 * tile - 128 * iteration to begin + 128 * tile - 128 * iteration + 127
    attention.mlir:121:3: note: 'o' is stored here: tokens begin + 128 * tile to begin + 128 * tile + 127
    ```

    What to change: let `flamia-insert-safeguards` run before (the argument needs a
    `flamia.original`), use token-local scales, add the missing `flamia.mask`, or correct
    `flamia.depends`. Needs specialized kernels, and says so.
  }];
  let dependentDialects = ["::flamia::FlamiaDialect"];
}

def EmulateExp2Pass : Pass<"flamia-emulate-exp2", "::mlir::ModuleOp"> {
  let summary = "compute a share of exponentials by multiplications and additions";
  let description = [{
    Changes numerical results: some exponentials round differently (a relative 2^-22.4
    either way).

    The special function unit makes 16 exponentials a cycle on sm_100a, and nothing in the
    forward is as scarce; the units for multiplications and additions idle meanwhile. Every
    `math.exp2` of a tile of scores becomes a `flamia.exp2`, which computes a share of the
    32 x 32 blocks of a document's score matrix by a polynomial. Which blocks depends on
    their row and column in that matrix alone: all kernels with a share choose the same ones, and what
    else is in a pack does not matter (docs/numerics.md).

    The share is the kernel's: what its attribute `flamia.exp2_emulation = {sm_100a = "1/4"}` says for
    `arch`; none if it says nothing. `share` overrides all kernels.

    A tile of scores is computed elementwise from products of a tile of rows with a
    transposed tile of rows; the indices of their loads, minus the work item's `begin`, give
    its place, which must be known in steps of 32. All other tiles are left alone, with a
    remark that says why. Row vectors are left alone.

    Needs specialized kernels, and says so. Runs behind `flamia-fold-scales`, which moves
    powers of two through `math.exp2` only. A share other than N/M with M a power of two up
    to 32, or 0, is an error, whatever architecture it is for, and so is an architecture that is not known.

    Before:

    ```mlir
    flamia.kernel @weights(%q: memref<?x128xbf16>, %k: memref<?x128xbf16>, %work: memref<?x4xi32>, %p: memref<?x128xf32>)
        grid(work[0]) attributes {flamia.exp2_emulation = {sm_100a = "1/4"}} {
      %c0 = arith.constant 0 : index
      %c128 = arith.constant 128 : index
      %f0 = arith.constant 0.0 : f32
      %zero = flamia.full %f0 : tensor<128x128xf32>
      %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
      %offset = arith.muli %tile, %c128 : index
      %row = arith.addi %begin, %offset : index
      %a = flamia.load %q[%row, %c0] limit %end : memref<?x128xbf16> -> tensor<128x128xbf16>
      %b = flamia.load %k[%begin, %c0] limit %end : memref<?x128xbf16> -> tensor<128x128xbf16>
      %t = flamia.transpose %b : tensor<128x128xbf16> -> tensor<128x128xbf16>
      %s = flamia.dot %a, %t, %zero : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xf32>
      %e = math.exp2 %s : tensor<128x128xf32>
      flamia.store %e, %p[%row, %c0] limit %end : tensor<128x128xf32>, memref<?x128xf32>
      flamia.return
    }
    ```

    After:

    ```mlir
    %e = flamia.exp2 %s rows %c0 cols %c0 polynomial 1 of 4 : tensor<128x128xf32>
    ```

    (Only the place modulo 4 blocks matters, and that is 0 for whole tiles of 128.)
  }];
  let options = [
    Option<"share", "share", "std::string", /*default=*/"\"kernel\"",
           "N/M: N of every M blocks in a row or column of blocks; 0: none; kernel: what each kernel says">,
    Option<"arch", "arch", "std::string", /*default=*/"\"sm_100a\"",
           "architecture of which the kernel is asked">];
  let dependentDialects = ["::flamia::FlamiaDialect", "::mlir::arith::ArithDialect"];
}

//===----------------------------------------------------------------------===//
// Roles, channels and memory: Flamia dialect in, Tcgen dialect out
//===----------------------------------------------------------------------===//

include "RolePasses.td"

//===----------------------------------------------------------------------===//
// Hardware: Tcgen dialect in, LLVM and NVVM dialects out
//===----------------------------------------------------------------------===//

def ConvertFlamiaToNVVMPass : Pass<"convert-flamia-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "lower kernels to what each thread does, in LLVM and NVVM operations";
  let description = [{
    Replaces each `flamia.kernel` by an `llvm.func` that is a kernel (`nvvm.kernel`): one
    thread owns one row of every tile; roles become branches on the warp, channels become
    mbarriers, products tcgen05 instructions. Vector arithmetic stays in arith, vector and
    scf, for the upstream conversions that follow in `flamia-to-llvm`. What a launch needs
    to know is left in the attribute `flamia.launch` (docs/launch-record.md).

    Kernels without products are laid out for memory: stores of whole rows pass through the
    staging room, so that a warp writes lines and not rows; registers are bounded so that
    several CTAs share an SM; and CTAs count along the program's y axis first, since tiles
    that differ in their head lie side by side. A payload that is only stored, of elements
    that other code needs too or in NVFP4, is rounded where it is stored, by a shorter version where
    no scale in the warp is 0, NaN, saturated or subnormal.

    Needs offsets on all `tcgen.alloc` (`flamia-allocate-memory`). Kernels without tcgen
    operations need nothing. Tiles of other than 128 rows in vector code, element types
    without a lowering and memory beyond the hardware's limits are errors with a location.
  }];
  let options = [
    Option<"arch", "arch", "std::string", /*default=*/"\"sm_100a\"",
           "sm_100a, sm_103a, or sm_90 for kernels without tensor memory">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def MergeLoopsPass : Pass<"flamia-merge-loops", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "run two loops of the same code on different tensors as one";
  let description = [{
    Where one loop follows another and their bodies are the same but for values from
    outside (pointers, extents, scalars), one loop runs the iterations of both, in the same
    order, and selects the values. Straight-line code of whole rows then is in the
    instruction cache once: for Q and K in `quantize_qkv`. Loops of fewer than
    `min-operations` operations, loops that carry values, compare unsigned or have other
    attributes, and loops of which one reads another tensor map than the other are left alone. Numbers do not change.

    Before, with `min-operations=1`:

    ```mlir
    llvm.func @fill(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %value: i32, %m: i64, %n: i64) {
      %a = arith.index_cast %m : i64 to index
      %b = arith.index_cast %n : i64 to index
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      scf.for %i = %c0 to %a step %c1 {
        %at = arith.index_cast %i : index to i64
        %p = llvm.getelementptr %x[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
        llvm.store %value, %p : i32, !llvm.ptr<1>
      }
      scf.for %i = %c0 to %b step %c1 {
        %at = arith.index_cast %i : index to i64
        %p = llvm.getelementptr %y[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
        llvm.store %value, %p : i32, !llvm.ptr<1>
      }
      llvm.return
    }
    ```

    After: a loop over as many iterations as both, with `arith.select` of `%x` and `%y` and
    of the index.
  }];
  let options = [
    Option<"minOperations", "min-operations", "int64_t", /*default=*/"512",
           "1 or more: operations of a body that is worth it">];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // FLAMIA_PASSES
