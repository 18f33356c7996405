// Softmax of each row of a matrix whose rows fit one tile. No product, no tensor core: such
// a kernel also compiles for sm_90.

!tile = tensor<128x?xf32>
!row = tensor<128x1xf32>

flamia.kernel @row_softmax(
    %x: memref<?x?xf32> {flamia.dims = ["rows", "columns"]}, %y: memref<?x?xf32> {flamia.dims = ["rows", "columns"]})
    parameters {columns = [128, 64, 32, 256]} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %log2e = arith.constant 1.44269504 : f32
  %log2es = flamia.full %log2e : !tile
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %t = flamia.load %x[%row, %c0] : memref<?x?xf32> -> !tile
  %max = flamia.reduce max %t : !tile -> !row
  %maxs = flamia.broadcast %max : !row -> !tile
  %shifted = arith.subf %t, %maxs : !tile
  %power = arith.mulf %shifted, %log2es : !tile
  %e = math.exp2 %power : !tile
  %sum = flamia.reduce sum %e : !tile -> !row
  %sums = flamia.broadcast %sum : !row -> !tile
  %p = arith.divf %e, %sums : !tile
  flamia.store %p, %y[%row, %c0] : !tile, memref<?x?xf32>
  flamia.return
}
