"""A product over tokens behind a chain of COUNT multiplications, each by one of two vectors that
could take a factor: make-chain.py COUNT."""
import sys

count = int(sys.argv[1])
print("""!tile = tensor<128x128xf32>
!local = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x128>
!w = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
flamia.kernel @chain(%x: memref<?x128xf32>, %r: memref<?x?xf32>, %d: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>,
    %r0: memref<?x?x128xf32> {flamia.folded = {of = "r"}}, %r1: memref<?x?x128xf32> {flamia.folded = {of = "r", exponent = "1"}},
    %r2: memref<?x?x128xf32> {flamia.folded = {of = "r", exponent = "2"}}, %r3: memref<?x?x128xf32> {flamia.folded = {of = "r", exponent = "3"}},
    %y: memref<?x128xf32>) grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %d8 = flamia.load_scaled %d[%c0, %c0, %c0], %s[%c0, %c0] along cols : memref<?x?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !local
  %vec = flamia.load %r[%c0, %c0] : memref<?x?xf32> -> tensor<128x1xf32>
  %line = flamia.transpose %vec : tensor<128x1xf32> -> tensor<1x128xf32>
  %rs = flamia.broadcast %line : tensor<1x128xf32> -> !tile
  %t0 = flamia.load %x[%c0, %c0] : memref<?x128xf32> -> !tile""")
for i in range(count):
    print(f"  %t{i + 1} = arith.mulf %t{i}, %rs : !tile")
print(f"""  %w = flamia.quantize %t{count} : !tile -> !w
  %o = flamia.dot %w, %d8, %zero : !w, !local -> !tile
  flamia.store %o, %y[%c0, %c0] : !tile, memref<?x128xf32>
  flamia.return
}}""")
