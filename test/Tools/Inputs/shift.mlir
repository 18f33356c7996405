// Quantizes with shifts, and loads a payload with unit scales.
!p = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!unit = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 128x128>

flamia.kernel @shift(%x: memref<128x128xf32>, %e: memref<128x1xf32>, %data: memref<128x128xf8E4M3FN>,
    %rows: memref<1x1x512xf8E8M0FNU>, %one: memref<1x1x512xf8E8M0FNU>, %again: memref<128x128xf8E4M3FN>, %units: memref<1x1x512xf8E8M0FNU>) grid(1) {
  %c0 = arith.constant 0 : index
  %c5 = arith.constant 5 : index
  %c128 = arith.constant 128 : index
  %t = flamia.load %x[%c0, %c0] : memref<128x128xf32> -> tensor<128x128xf32>
  %shift = flamia.load %e[%c0, %c0] : memref<128x1xf32> -> tensor<128x1xf32>
  %q = flamia.quantize %t shift(%shift : tensor<128x1xf32>) shift_by -8 : tensor<128x128xf32> -> !p
  flamia.store_payload %q, %data[%c0, %c0] : !p, memref<128x128xf8E4M3FN>
  flamia.store_scales %q, %rows[%c0, %c0] rows %c128 along cols : !p, memref<1x1x512xf8E8M0FNU>
  %first = flamia.load %e[%c5, %c0] : memref<128x1xf32> -> tensor<1x1xf32>
  %q1 = flamia.quantize %t shift(%first : tensor<1x1xf32>) : tensor<128x128xf32> -> !p
  flamia.store_scales %q1, %one[%c0, %c0] rows %c128 along cols : !p, memref<1x1x512xf8E8M0FNU>
  %u = flamia.load_payload %data[%c0, %c0] limit %c5 : memref<128x128xf8E4M3FN> -> !unit
  flamia.store_payload %u, %again[%c0, %c0] : !unit, memref<128x128xf8E4M3FN>
  flamia.store_scales %u, %units[%c0, %c0] rows %c128 along cols : !unit, memref<1x1x512xf8E8M0FNU>
  flamia.return
}
