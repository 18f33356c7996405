// What the backward needs beside the forward's results: dO' = dO / l quantized token by
// token, D' = rowsum(dO' O) for both kinds of tiles, and the scale bytes and vectors into
// which token-local exponents are folded. One work item is a tile of 128 tokens of one
// document and head. Shapes: README.md. Numerics: docs/numerics.md.

!tile = tensor<128x?xf32>
!row = tensor<128x1xf32>
!line = tensor<1x128xf32>
!bf16 = memref<?x?x?xbf16>
!bf16_strided = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!vector = memref<?x?xf32>
!lines = memref<?x?x128xf32>
!scale = memref<?x?x512xf8E8M0FNU>
!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>

// Queries: eO, eQ are the exponents of a token's scales of dO' and Q; E_b and EQ their
// largest in 32 tokens and in the tile. The scale of Q in dK is E_b + EQ - 8; what a byte
// cannot hold of it is left to dS, by way of the scale of dO' and D'.
flamia.kernel @attention_bwd_prep(
    %q_scale: !scale {flamia.dims = ["tiles", "heads", "atom"]},
    %o: !bf16 {flamia.dims = ["tokens", "heads", "head_dim"]}, %do: !bf16_strided {flamia.dims = ["tokens", "heads", "head_dim"]},
    %m: !vector {flamia.dims = ["tokens", "heads"]}, %l: !vector {flamia.dims = ["tokens", "heads"]},
    %kappa: !vector {flamia.dims = ["tokens", "heads"]}, %dlse: !vector {flamia.dims = ["tokens", "heads"]},
    %work: memref<?x4xi32>,
    %do_data: memref<?x?x?xf8E4M3FN> {flamia.workspace, flamia.dims = ["tokens", "heads", "head_dim"], flamia.depends = {do = "<=", l = "<=", dlse = "<="}},
    %do_scale: !scale {flamia.workspace, flamia.dims = ["tiles", "heads", "atom"]}, %do_scale_hat: !scale {flamia.workspace, flamia.dims = ["tiles", "heads", "atom"]},
    %do_block_scale: !scale {flamia.workspace, flamia.dims = ["tiles", "heads", "atom"]},
    %q_block_scale: !scale {flamia.workspace, flamia.dims = ["tiles", "heads", "atom"]},
    %r: !vector {flamia.workspace, flamia.dims = ["tokens", "heads"], flamia.depends = {l = "<="}},
    %d_past: !vector {flamia.workspace, flamia.dims = ["tokens", "heads"], flamia.depends = {do = "<=", o = "<=", l = "<=", kappa = "<=", dlse = "<="}},
    %d_diagonal: !vector {flamia.workspace, flamia.dims = ["tokens", "heads"], flamia.depends = {do = "<=", o = "<=", l = "<=", kappa = "<=", dlse = "<="}},
    %bias: !lines {flamia.workspace, flamia.dims = ["tiles", "heads", "tile_rows"]}, %bias_hat: !lines {flamia.workspace, flamia.dims = ["tiles", "heads", "tile_rows"]},
    %d_past_hat: !lines {flamia.workspace, flamia.dims = ["tiles", "heads", "tile_rows"]}, %d_diagonal_hat: !lines {flamia.workspace, flamia.dims = ["tiles", "heads", "tile_rows"]},
    %r_hat: !lines {flamia.workspace, flamia.dims = ["tiles", "heads", "tile_rows"]}, %r_unit: !lines {flamia.workspace, flamia.dims = ["tiles", "heads", "tile_rows"]})
    parameters {head_dim = [128, 64], dlse = [false, true]}
    grid(work[0], o[1]) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %none = arith.constant dense<0.0> : !row
  %minus_inf = arith.constant dense<0xFF800000> : !row
  %one = arith.constant dense<1.0> : !row
  %eight = arith.constant dense<8.0> : !row
  %payload_unit = arith.constant dense<0.00390625> : !row
  %share = arith.constant dense<9.094947017729282e-13> : !row
  %smallest = arith.constant dense<-127.0> : !row
  %largest = arith.constant dense<127.0> : !row

  %dim = flamia.param "head_dim" : index
  %has_dlse = flamia.param "dlse" : i1
  %head = flamia.program_id y
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  %row = arith.addi %begin, %offset : index
  %rows = arith.subi %end, %row : index
  %st = arith.addi %scale_base, %tile : index

  // Together, so that they arrive while the tiles do.
  %l_in = flamia.load %l[%row, %head] limit %end : !vector -> !row
  %dlse_in = flamia.load %dlse[%row, %head] limit %end : !vector -> !row
  %kappa_in = flamia.load %kappa[%row, %head] limit %end : !vector -> !row
  %m_in = flamia.load %m[%row, %head] limit %end : !vector -> !row
  %eq = flamia.load_exponents %q_scale[%st, %head] : !scale -> !row

  // dO' = dO / l. A dLSE counts in the scale where it is 2^40 times larger, so that D' stays
  // in range. Rows past the document's end are zero, with l.
  %inverse = arith.divf %one, %l_in : !row
  %no_key = arith.cmpf oeq, %l_in, %none : !row
  %r_in = arith.select %no_key, %none, %inverse : tensor<128x1xi1>, !row
  %dlse_r = arith.mulf %dlse_in, %r_in : !row
  %u = arith.select %has_dlse, %dlse_r, %none : !row
  %u_share = arith.mulf %u, %share : !row
  %do_bf16 = flamia.load %do[%row, %head, %c0] limit %end : !bf16_strided -> tensor<128x?xbf16>
  %do_in = arith.extf %do_bf16 : tensor<128x?xbf16> to !tile
  %rs = flamia.broadcast %r_in : !row -> !tile
  %do_r = arith.mulf %do_in, %rs : !tile
  %do8 = flamia.quantize %do_r including(%u_share : !row) : !tile -> !local
  flamia.store_payload %do8, %do_data[%row, %head, %c0] limit %end : !local, memref<?x?x?xf8E4M3FN>
  flamia.store_scales %do8, %do_scale[%st, %head] rows %rows along cols : !local, !scale
  flamia.store %r_in, %r[%row, %head] limit %end : !row, !vector

  // D' from the operands that dP' has: the payload (dp, in units of 2^eO) and dO r (dd).
  %o_bf16 = flamia.load %o[%row, %head, %c0] limit %end : !bf16 -> tensor<128x?xbf16>
  %o_in = arith.extf %o_bf16 : tensor<128x?xbf16> to !tile
  %payload = flamia.payload %do8 : !local -> !tile
  %products8 = arith.mulf %payload, %o_in : !tile
  %sum8 = flamia.reduce sum %products8 : !tile -> !row
  %products = arith.mulf %do_in, %o_in : !tile
  %sum = flamia.reduce sum %products : !tile -> !row
  %eo = flamia.exponents %do8 : !local -> !row
  %minus_eo = arith.negf %eo : !row
  %per_unit = flamia.pow2 %minus_eo : !row
  %u_units = arith.mulf %u, %per_unit : !row
  %kappa_sum8 = arith.mulf %kappa_in, %sum8 : !row
  %dp = arith.subf %kappa_sum8, %u_units : !row
  %sum_r = arith.mulf %sum, %r_in : !row
  %kappa_sum = arith.mulf %kappa_in, %sum_r : !row
  %dd = arith.subf %kappa_sum, %u : !row
  %unit = flamia.pow2 %eo : !row
  %dp_value = arith.mulf %dp, %unit : !row
  flamia.store %dp_value, %d_past[%row, %head] limit %end : !row, !vector
  flamia.store %dd, %d_diagonal[%row, %head] limit %end : !row, !vector

  // Scale bytes with folded exponents.
  %eq_max = flamia.reduce_rows max %eq by 128 rows %rows : !row
  %eb = flamia.reduce_rows max %eo by 32 rows %rows : !row
  %eb_eq = arith.addf %eb, %eq_max : !row
  %block_all = arith.subf %eb_eq, %eight : !row
  %block_low = arith.maximumf %block_all, %smallest : !row
  %block = arith.minimumf %block_low, %largest : !row
  %left = arith.subf %block_all, %block : !row
  %eq_relative = arith.subf %eq, %eq_max : !row
  %eq_hat = arith.addf %eq_relative, %left : !row
  flamia.store_exponents %eq_hat, %do_scale_hat[%st, %head] rows %rows cols %dim along cols : !row, !scale
  flamia.store_exponents %eb, %do_block_scale[%st, %head] rows %rows cols %dim along rows : !row, !scale
  flamia.store_exponents %block, %q_block_scale[%st, %head] rows %rows cols %dim along rows : !row, !scale

  // Vectors of the tile with folded exponents. A row whose weights all vanished has none here
  // either, whatever its scores are; rows past the document's end have l = 0 too.
  %plain = arith.subf %eight, %m_in : !row
  %eo_hat = arith.subf %eo, %eb : !row
  %eight_hat = arith.addf %eight, %eo_hat : !row
  %folded = arith.subf %eight_hat, %m_in : !row
  %bias_in = arith.select %no_key, %minus_inf, %plain : tensor<128x1xi1>, !row
  %bias_hat_in = arith.select %no_key, %minus_inf, %folded : tensor<128x1xi1>, !row
  %q_unit = flamia.pow2 %eq : !row
  %q_unit_hat = flamia.pow2 %eq_hat : !row
  %dp_hat = arith.mulf %dp, %q_unit_hat : !row
  %dd_hat = arith.mulf %dd, %q_unit : !row
  %r_q = arith.mulf %r_in, %q_unit : !row
  %r_256 = arith.mulf %r_in, %payload_unit : !row
  %biasT = flamia.transpose %bias_in : !row -> !line
  %bias_hatT = flamia.transpose %bias_hat_in : !row -> !line
  %dp_hatT = flamia.transpose %dp_hat : !row -> !line
  %dd_hatT = flamia.transpose %dd_hat : !row -> !line
  %r_qT = flamia.transpose %r_q : !row -> !line
  %r_256T = flamia.transpose %r_256 : !row -> !line
  flamia.store %biasT, %bias[%st, %head, %c0] : !line, !lines
  flamia.store %bias_hatT, %bias_hat[%st, %head, %c0] : !line, !lines
  flamia.store %dp_hatT, %d_past_hat[%st, %head, %c0] : !line, !lines
  flamia.store %dd_hatT, %d_diagonal_hat[%st, %head, %c0] : !line, !lines
  flamia.store %r_qT, %r_hat[%st, %head, %c0] : !line, !lines
  flamia.store %r_256T, %r_unit[%st, %head, %c0] : !line, !lines
  flamia.return
}

// Keys: eK is a token's exponent of K, EK the tile's largest. The scale of K in dQ is EK - 8,
// with the same remainder.
flamia.kernel @attention_bwd_prep_keys(
    %k_scale: !scale {flamia.dims = ["tiles", "kv_heads", "atom"]}, %v_scale: !scale {flamia.dims = ["tiles", "kv_heads", "atom"]},
    %work: memref<?x4xi32>,
    %v_scale_hat: !scale {flamia.workspace, flamia.dims = ["tiles", "kv_heads", "atom"]}, %k_block_scale: !scale {flamia.workspace, flamia.dims = ["tiles", "kv_heads", "atom"]},
    %k_factor: !lines {flamia.workspace, flamia.dims = ["tiles", "kv_heads", "tile_rows"]},
    %k_factor_diagonal: !lines {flamia.workspace, flamia.dims = ["tiles", "kv_heads", "tile_rows"]})
    parameters {head_dim = [128, 64]}
    grid(work[0], k_scale[1]) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %dim = flamia.param "head_dim" : index
  %head = flamia.program_id y
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  %row = arith.addi %begin, %offset : index
  %rows = arith.subi %end, %row : index
  %st = arith.addi %scale_base, %tile : index

  %ek = flamia.load_exponents %k_scale[%st, %head] : !scale -> !row
  %ek_max = flamia.reduce_rows max %ek by 128 rows %rows : !row
  %eight = arith.constant dense<8.0> : !row
  %smallest = arith.constant dense<-127.0> : !row
  %block_all = arith.subf %ek_max, %eight : !row
  %block = arith.maximumf %block_all, %smallest : !row
  %left = arith.subf %block_all, %block : !row
  %ek_relative = arith.subf %ek, %ek_max : !row
  %ek_hat = arith.addf %ek_relative, %left : !row
  %ev = flamia.load_exponents %v_scale[%st, %head] : !scale -> tensor<128x4xf32>
  %ek_hats = flamia.broadcast %ek_hat : !row -> tensor<128x4xf32>
  %ev_hat = arith.addf %ev, %ek_hats : tensor<128x4xf32>
  flamia.store_exponents %ev_hat, %v_scale_hat[%st, %head] rows %rows cols %dim along cols : tensor<128x4xf32>, !scale
  flamia.store_exponents %block, %k_block_scale[%st, %head] rows %rows cols %dim along rows : !row, !scale
  %factor = flamia.pow2 %ek_hat : !row
  %factor_diagonal = flamia.pow2 %ek : !row
  %factorT = flamia.transpose %factor : !row -> !line
  %factor_diagonalT = flamia.transpose %factor_diagonal : !row -> !line
  flamia.store %factorT, %k_factor[%st, %head, %c0] : !line, !lines
  flamia.store %factor_diagonalT, %k_factor_diagonal[%st, %head, %c0] : !line, !lines
  flamia.return
}
