// NVFP4 without a rotation: what each element and scale becomes, on the simulator against
// numpy, by the instruction of sm_100a and without it (Inputs/check_nvfp4_quantize.py).
// RUN: %python %S/Inputs/check_nvfp4_quantize.py %s sm_100a sm_90

!tile = tensor<128x64xf32>
!fp4 = !flamia.scaled<128x64, f4E2M1FN by f8E4M3FN per 1x16>

flamia.kernel @quantize_nvfp4(
    %x: memref<?x64xf32>, %g: f32, %codes: memref<?x64xf4E2M1FN>, %scales: memref<?x1x1x512xf8E4M3FN>)
    parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %end = flamia.dim %x[0] : memref<?x64xf32>
  %rows = arith.subi %end, %row : index
  %t = flamia.load %x[%row, %c0] : memref<?x64xf32> -> !tile
  %q = flamia.quantize %t rows %rows global_scale %g : !tile -> !fp4
  flamia.store_payload %q, %codes[%row, %c0] : !fp4, memref<?x64xf4E2M1FN>
  flamia.store_scales %q, %scales[%tile, %c0] rows %rows along cols : !fp4, memref<?x1x1x512xf8E4M3FN>
  flamia.return
}
