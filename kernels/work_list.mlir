// The work list of packed documents from cu_seqlens on the device: what lib/Schedule's
// buildWorkList makes on the host, bit for bit, without a word to the host. Shapes and
// the scratch tensors: README.md.
//
// These are thread programs, not tile programs: they sort and search. A function with
// `flamia.launch` enters the compiler at its third stage (docs/artifact-format.md).
//
// Longest first means: tile by tile downwards, and for each tile all documents that have
// it. With documents sorted by their tiles, longest first, those are the first ones. So
// the list is known from the sorted documents and, for document r of them, the number of
// entries before the tile that only the documents 0..r have ("steps"). The first kernel
// makes those, in one CTA; the second looks each entry up. Where a launch has few waves of
// entries, the second wave is dealt (dealSecondWave in lib/Schedule): the first kernel says
// in which blocks, the second looks up another entry.

llvm.mlir.global internal @warp_counts() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<8192 x i32>
llvm.mlir.global internal @digit_starts() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<256 x i32>
llvm.mlir.global internal @partials() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<128 x i32>

// state: entries; which half of document_order is sorted; tiles of each document if all
// have as many (then nothing is sorted), else 0; 1 if cu_seqlens is not legal (then there
// are no entries); the second wave's first entry, the one past its last, and the entries of
// a block that is dealt, or 0; 0.
llvm.func @order_documents(%cu: !llvm.ptr<1>, %offsets64: i64, %capacity64: i64, %order: !llvm.ptr<1>,
    %scale_base: !llvm.ptr<1>, %steps: !llvm.ptr<1>, %state: !llvm.ptr<1>, %tokens: i32, %causal: i32,
    %sms: i32, %kv_heads: i32)
    attributes {nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 1024>, flamia.launch = {
      args = [{access = "read", dims = [-1], element = "i32", name = "cu_seqlens"},
              {access = "read", dims = [-1, 4], element = "i32", name = "work"},
              {access = "write", dims = [2, -1], dim_names = ["", "documents"], element = "i32", name = "document_order"},
              {access = "write", dims = [-1], dim_names = ["documents"], element = "i32", name = "document_scale_base"},
              {access = "write", dims = [-1], dim_names = ["documents"], element = "i32", name = "document_steps"},
              {access = "write", dims = [8], element = "i32", name = "list_state"},
              {element = "i32", name = "tokens"}, {element = "i32", name = "causal"},
              {element = "i32", name = "sms"}, {element = "i32", name = "kv_heads"}],
      params = [{pointer = "cu_seqlens"}, {dim = 0 : i64, of = "cu_seqlens"}, {dim = 0 : i64, of = "work"},
                {pointer = "document_order"}, {pointer = "document_scale_base"}, {pointer = "document_steps"},
                {pointer = "list_state"}, {scalar = "tokens"}, {scalar = "causal"}, {scalar = "sms"}, {scalar = "kv_heads"}],
      grid = [1], parameters = {}, threads = 1024 : i64, dynamic_smem = 0 : i64, tmem_columns = 0 : i64}} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %c10 = arith.constant 10 : i32
  %c31 = arith.constant 31 : i32
  %c32 = arith.constant 32 : i32
  %c255 = arith.constant 255 : i32
  %c256 = arith.constant 256 : i32
  %c1023 = arith.constant 1023 : i32
  %all = arith.constant -1 : i32
  %most_i32 = arith.constant 2147483647 : i32
  %true = arith.constant true
  %partials = llvm.mlir.addressof @partials : !llvm.ptr<3>
  %counts = llvm.mlir.addressof @warp_counts : !llvm.ptr<3>
  %starts = llvm.mlir.addressof @digit_starts : !llvm.ptr<3>
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %lane = arith.andi %tid, %c31 : i32
  %warp = arith.shrui %tid, %c5 : i32
  %before_lane = nvvm.read.ptx.sreg.lanemask.lt : i32
  %is_first_lane = arith.cmpi eq, %lane, %c0 : i32
  %is_last_lane = arith.cmpi eq, %lane, %c31 : i32
  %offsets = arith.trunci %offsets64 : i64 to i32
  %capacity = arith.trunci %capacity64 : i64 to i32
  %documents = arith.subi %offsets, %c1 : i32
  %last = arith.subi %documents, %c1 : i32
  %own_partial = llvm.getelementptr %partials[%warp] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %lane_partial = llvm.getelementptr %partials[%lane] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %is_earlier_warp = arith.cmpi ult, %lane, %warp : i32

  // Each warp has a stretch of documents, in rounds of 32. Lanes past the end look at the
  // last document and do not count.
  %blocks = arith.addi %documents, %c1023 : i32
  %rounds = arith.shrui %blocks, %c10 : i32
  %stretch = arith.muli %rounds, %c32 : i32
  %stretch_first = arith.muli %warp, %stretch : i32
  %first = arith.addi %stretch_first, %lane : i32

  // Tiles: how many, the least and the most of a document, and what is illegal.
  %sum, %least, %most, %wrong = scf.for %j = %c0 to %rounds step %c1
      iter_args(%sum0 = %c0, %least0 = %most_i32, %most0 = %c0, %wrong0 = %c0) -> (i32, i32, i32, i32) : i32 {
    %round = arith.muli %j, %c32 : i32
    %d = arith.addi %first, %round : i32
    %is_document = arith.cmpi slt, %d, %documents : i32
    %at = arith.minsi %d, %last : i32
    %place = llvm.getelementptr %cu[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    %next_place = llvm.getelementptr %place[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
    %begin = llvm.load %place : !llvm.ptr<1> -> i32
    %end = llvm.load %next_place : !llvm.ptr<1> -> i32
    %falls = arith.cmpi slt, %end, %begin : i32
    %wrong1 = arith.select %falls, %c1, %wrong0 : i32
    %length = arith.subi %end, %begin : i32
    %length_1 = arith.subi %length, %c1 : i32
    %last_tile = arith.shrsi %length_1, %c7 : i32
    %tiles = arith.addi %last_tile, %c1 : i32
    %counted = arith.select %is_document, %tiles, %c0 : i32
    %sum1 = arith.addi %sum0, %counted : i32
    %least1 = arith.minsi %least0, %tiles : i32
    %most1 = arith.maxsi %most0, %tiles : i32
    scf.yield %sum1, %least1, %most1, %wrong1 : i32, i32, i32, i32
  }
  %warp_sum = nvvm.redux.sync add %sum, %all : i32 -> i32
  %warp_least = nvvm.redux.sync min %least, %all : i32 -> i32
  %warp_most = nvvm.redux.sync max %most, %all : i32 -> i32
  %warp_wrong = nvvm.redux.sync max %wrong, %all : i32 -> i32
  %own_least = llvm.getelementptr %own_partial[32] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  %own_most = llvm.getelementptr %own_partial[64] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  %own_wrong = llvm.getelementptr %own_partial[96] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  scf.if %is_first_lane {
    llvm.store %warp_sum, %own_partial : i32, !llvm.ptr<3>
    llvm.store %warp_least, %own_least : i32, !llvm.ptr<3>
    llvm.store %warp_most, %own_most : i32, !llvm.ptr<3>
    llvm.store %warp_wrong, %own_wrong : i32, !llvm.ptr<3>
  }
  nvvm.barrier0
  %lane_least = llvm.getelementptr %lane_partial[32] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  %lane_most = llvm.getelementptr %lane_partial[64] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  %lane_wrong = llvm.getelementptr %lane_partial[96] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  %sums = llvm.load %lane_partial : !llvm.ptr<3> -> i32
  %leasts = llvm.load %lane_least : !llvm.ptr<3> -> i32
  %mosts = llvm.load %lane_most : !llvm.ptr<3> -> i32
  %wrongs = llvm.load %lane_wrong : !llvm.ptr<3> -> i32
  %entries = nvvm.redux.sync add %sums, %all : i32 -> i32
  %shortest = nvvm.redux.sync min %leasts, %all : i32 -> i32
  %longest = nvvm.redux.sync max %mosts, %all : i32 -> i32
  %any_wrong = nvvm.redux.sync max %wrongs, %all : i32 -> i32
  %earlier_sums = arith.select %is_earlier_warp, %sums, %c0 : i32
  %tiles_before = nvvm.redux.sync add %earlier_sums, %all : i32 -> i32

  // With a first offset of 0 and none that falls, the last is the largest.
  %last_place = llvm.getelementptr %cu[%documents] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  %first_offset = llvm.load %cu : !llvm.ptr<1> -> i32
  %last_offset = llvm.load %last_place : !llvm.ptr<1> -> i32
  %starts_wrong = arith.cmpi ne, %first_offset, %c0 : i32
  %ends_wrong = arith.cmpi sgt, %last_offset, %tokens : i32
  %too_many = arith.cmpi sgt, %entries, %capacity : i32
  %is_wrong_0 = arith.cmpi ne, %any_wrong, %c0 : i32
  %is_wrong_1 = arith.ori %is_wrong_0, %starts_wrong : i1
  %is_wrong_2 = arith.ori %is_wrong_1, %ends_wrong : i1
  %is_wrong = arith.ori %is_wrong_2, %too_many : i1
  %is_uniform = arith.cmpi eq, %shortest, %longest : i32
  %is_empty = arith.cmpi eq, %entries, %c0 : i32

  // The key is what a document lacks to the longest, in digits of 8 bits.
  %range = arith.subi %longest, %shortest : i32
  %zeros = math.ctlz %range : i32
  %bits = arith.subi %c32, %zeros : i32
  %bits_7 = arith.addi %bits, %c7 : i32
  %passes = arith.shrui %bits_7, %c3 : i32
  %half = arith.andi %passes, %c1 : i32

  %is_first_thread = arith.cmpi eq, %tid, %c0 : i32
  scf.if %is_first_thread {
    %written = arith.select %is_wrong, %c0, %entries : i32
    %uniform = arith.select %is_uniform, %longest, %c0 : i32
    %fault = arith.extui %is_wrong : i1 to i32
    %state_1 = llvm.getelementptr %state[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
    %state_2 = llvm.getelementptr %state[2] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
    %state_3 = llvm.getelementptr %state[3] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
    llvm.store %written, %state : i32, !llvm.ptr<1>
    llvm.store %half, %state_1 : i32, !llvm.ptr<1>
    llvm.store %uniform, %state_2 : i32, !llvm.ptr<1>
    llvm.store %fault, %state_3 : i32, !llvm.ptr<1>
    %no_wave = arith.constant dense<0> : vector<4xi32>
    %state_4 = llvm.getelementptr %state[4] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
    llvm.store %no_wave, %state_4 {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
  }

  %is_nothing = arith.ori %is_wrong, %is_empty : i1
  %is_something = arith.xori %is_nothing, %true : i1
  scf.if %is_something {
    // The tiles before each document, and the order to start from.
    %end_base = scf.for %j = %c0 to %rounds step %c1 iter_args(%running = %tiles_before) -> (i32) : i32 {
      %round = arith.muli %j, %c32 : i32
      %d = arith.addi %first, %round : i32
      %is_document = arith.cmpi slt, %d, %documents : i32
      %at = arith.minsi %d, %last : i32
      %place = llvm.getelementptr %cu[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      %next_place = llvm.getelementptr %place[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
      %begin = llvm.load %place : !llvm.ptr<1> -> i32
      %end = llvm.load %next_place : !llvm.ptr<1> -> i32
      %length = arith.subi %end, %begin : i32
      %length_1 = arith.subi %length, %c1 : i32
      %last_tile = arith.shrsi %length_1, %c7 : i32
      %tiles_raw = arith.addi %last_tile, %c1 : i32
      %tiles = arith.select %is_document, %tiles_raw, %c0 : i32
      %with = scf.for %s = %c0 to %c5 step %c1 iter_args(%x = %tiles) -> (i32) : i32 {
        %distance = arith.shli %c1, %s : i32
        %other = nvvm.shfl.sync up %all, %x, %distance, %c0 : i32 -> i32
        %reaches = arith.cmpi uge, %lane, %distance : i32
        %added = arith.select %reaches, %other, %c0 : i32
        %next = arith.addi %x, %added : i32
        scf.yield %next : i32
      }
      %without = arith.subi %with, %tiles : i32
      %base = arith.addi %running, %without : i32
      scf.if %is_document {
        %base_place = llvm.getelementptr %scale_base[%d] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %order_place = llvm.getelementptr %order[%d] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        llvm.store %base, %base_place : i32, !llvm.ptr<1>
        llvm.store %d, %order_place : i32, !llvm.ptr<1>
      }
      %round_sum = nvvm.shfl.sync idx %all, %with, %c31, %c31 : i32 -> i32
      %running_1 = arith.addi %running, %round_sum : i32
      scf.yield %running_1 : i32
    }
    nvvm.barrier0

    // A stable sort, least digit first: each warp counts the digits of its stretch, sums
    // over warps say where its documents of a digit start, and it puts them there in order.
    scf.for %p = %c0 to %passes step %c1 : i32 {
      %shift = arith.muli %p, %c8 : i32
      %from_half = arith.andi %p, %c1 : i32
      %to_half = arith.subi %c1, %from_half : i32
      %from_start = arith.muli %from_half, %documents : i32
      %to_start = arith.muli %to_half, %documents : i32
      %from = llvm.getelementptr %order[%from_start] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      %to = llvm.getelementptr %order[%to_start] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      %row_start = arith.muli %warp, %c256 : i32
      %row = llvm.getelementptr %counts[%row_start] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      scf.for %k = %lane to %c256 step %c32 : i32 {
        %count_place = llvm.getelementptr %row[%k] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
        llvm.store %c0, %count_place : i32, !llvm.ptr<3>
      }
      nvvm.bar.warp.sync %all : i32
      scf.for %j = %c0 to %rounds step %c1 : i32 {
        %round = arith.muli %j, %c32 : i32
        %r = arith.addi %first, %round : i32
        %is_document = arith.cmpi slt, %r, %documents : i32
        %at = arith.minsi %r, %last : i32
        %from_place = llvm.getelementptr %from[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %d = llvm.load %from_place : !llvm.ptr<1> -> i32
        %place = llvm.getelementptr %cu[%d] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %next_place = llvm.getelementptr %place[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
        %begin = llvm.load %place : !llvm.ptr<1> -> i32
        %end = llvm.load %next_place : !llvm.ptr<1> -> i32
        %length = arith.subi %end, %begin : i32
        %length_1 = arith.subi %length, %c1 : i32
        %last_tile = arith.shrsi %length_1, %c7 : i32
        %tiles = arith.addi %last_tile, %c1 : i32
        %key = arith.subi %longest, %tiles : i32
        %shifted = arith.shrui %key, %shift : i32
        %digit = arith.andi %shifted, %c255 : i32
        // Lanes without a document match each other only.
        %matched = arith.select %is_document, %digit, %c256 : i32
        %same = nvvm.match.sync any %all, %matched : i32 -> i32
        %same_before = arith.andi %same, %before_lane : i32
        %is_first = arith.cmpi eq, %same_before, %c0 : i32
        %counts_them = arith.andi %is_first, %is_document : i1
        scf.if %counts_them {
          %number = math.ctpop %same : i32
          %count_place = llvm.getelementptr %row[%digit] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
          %count = llvm.load %count_place : !llvm.ptr<3> -> i32
          %count_1 = arith.addi %count, %number : i32
          llvm.store %count_1, %count_place : i32, !llvm.ptr<3>
        }
        nvvm.bar.warp.sync %all : i32
      }
      nvvm.barrier0
      %has_digit = arith.cmpi ult, %tid, %c256 : i32
      %digit_sum = scf.if %has_digit -> (i32) {
        %column = llvm.getelementptr %counts[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
        %over_warps = scf.for %w = %c0 to %c32 step %c1 iter_args(%running = %c0) -> (i32) : i32 {
          %w_start = arith.muli %w, %c256 : i32
          %count_place = llvm.getelementptr %column[%w_start] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
          %count = llvm.load %count_place : !llvm.ptr<3> -> i32
          llvm.store %running, %count_place : i32, !llvm.ptr<3>
          %running_1 = arith.addi %running, %count : i32
          scf.yield %running_1 : i32
        }
        scf.yield %over_warps : i32
      } else {
        scf.yield %c0 : i32
      }
      %digits_with = scf.for %s = %c0 to %c5 step %c1 iter_args(%x = %digit_sum) -> (i32) : i32 {
        %distance = arith.shli %c1, %s : i32
        %other = nvvm.shfl.sync up %all, %x, %distance, %c0 : i32 -> i32
        %reaches = arith.cmpi uge, %lane, %distance : i32
        %added = arith.select %reaches, %other, %c0 : i32
        %next = arith.addi %x, %added : i32
        scf.yield %next : i32
      }
      scf.if %is_last_lane {
        llvm.store %digits_with, %own_partial : i32, !llvm.ptr<3>
      }
      nvvm.barrier0
      %digit_sums = llvm.load %lane_partial : !llvm.ptr<3> -> i32
      %earlier_digits = arith.select %is_earlier_warp, %digit_sums, %c0 : i32
      %digits_before = nvvm.redux.sync add %earlier_digits, %all : i32 -> i32
      scf.if %has_digit {
        %digits_without = arith.subi %digits_with, %digit_sum : i32
        %start = arith.addi %digits_before, %digits_without : i32
        %start_place = llvm.getelementptr %starts[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
        llvm.store %start, %start_place : i32, !llvm.ptr<3>
      }
      nvvm.barrier0
      scf.for %j = %c0 to %rounds step %c1 : i32 {
        %round = arith.muli %j, %c32 : i32
        %r = arith.addi %first, %round : i32
        %is_document = arith.cmpi slt, %r, %documents : i32
        %at = arith.minsi %r, %last : i32
        %from_place = llvm.getelementptr %from[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %d = llvm.load %from_place : !llvm.ptr<1> -> i32
        %place = llvm.getelementptr %cu[%d] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %next_place = llvm.getelementptr %place[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
        %begin = llvm.load %place : !llvm.ptr<1> -> i32
        %end = llvm.load %next_place : !llvm.ptr<1> -> i32
        %length = arith.subi %end, %begin : i32
        %length_1 = arith.subi %length, %c1 : i32
        %last_tile = arith.shrsi %length_1, %c7 : i32
        %tiles = arith.addi %last_tile, %c1 : i32
        %key = arith.subi %longest, %tiles : i32
        %shifted = arith.shrui %key, %shift : i32
        %digit = arith.andi %shifted, %c255 : i32
        %matched = arith.select %is_document, %digit, %c256 : i32
        %same = nvvm.match.sync any %all, %matched : i32 -> i32
        %same_before = arith.andi %same, %before_lane : i32
        %rank = math.ctpop %same_before : i32
        %is_first = arith.cmpi eq, %same_before, %c0 : i32
        %counts_them = arith.andi %is_first, %is_document : i1
        %count_place = llvm.getelementptr %row[%digit] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
        %start_place = llvm.getelementptr %starts[%digit] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
        %count = llvm.load %count_place : !llvm.ptr<3> -> i32
        %start = llvm.load %start_place : !llvm.ptr<3> -> i32
        nvvm.bar.warp.sync %all : i32
        scf.if %counts_them {
          %number = math.ctpop %same : i32
          %count_1 = arith.addi %count, %number : i32
          llvm.store %count_1, %count_place : i32, !llvm.ptr<3>
        }
        scf.if %is_document {
          %within = arith.addi %count, %rank : i32
          %position = arith.addi %start, %within : i32
          %to_place = llvm.getelementptr %to[%position] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          llvm.store %d, %to_place : i32, !llvm.ptr<1>
        }
        nvvm.bar.warp.sync %all : i32
      }
      nvvm.barrier0
    }

    // Steps. Between the tiles of sorted documents r and r + 1 there are tiles that r + 1
    // documents have; without causality a document's entries follow each other.
    %is_sorted = arith.xori %is_uniform, %true : i1
    scf.if %is_sorted {
      %is_causal = arith.cmpi ne, %causal, %c0 : i32
      %sorted_start = arith.muli %half, %documents : i32
      %sorted = llvm.getelementptr %order[%sorted_start] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      // Twice over the stretch: its sum, then its running sums.
      %ignored = scf.for %turn = %c0 to %c2 step %c1 iter_args(%turn_start = %c0) -> (i32) : i32 {
        %is_writing = arith.cmpi eq, %turn, %c1 : i32
        %stretch_end = scf.for %j = %c0 to %rounds step %c1 iter_args(%running = %turn_start) -> (i32) : i32 {
          %round = arith.muli %j, %c32 : i32
          %r = arith.addi %first, %round : i32
          %is_document = arith.cmpi slt, %r, %documents : i32
          %at = arith.minsi %r, %last : i32
          %after_raw = arith.addi %at, %c1 : i32
          %after = arith.minsi %after_raw, %last : i32
          %here_place = llvm.getelementptr %sorted[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %after_place = llvm.getelementptr %sorted[%after] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %d = llvm.load %here_place : !llvm.ptr<1> -> i32
          %d_after = llvm.load %after_place : !llvm.ptr<1> -> i32
          %place = llvm.getelementptr %cu[%d] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %next_place = llvm.getelementptr %place[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
          %begin = llvm.load %place : !llvm.ptr<1> -> i32
          %end = llvm.load %next_place : !llvm.ptr<1> -> i32
          %length = arith.subi %end, %begin : i32
          %length_1 = arith.subi %length, %c1 : i32
          %last_tile = arith.shrsi %length_1, %c7 : i32
          %tiles = arith.addi %last_tile, %c1 : i32
          %place_after = llvm.getelementptr %cu[%d_after] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %next_after = llvm.getelementptr %place_after[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
          %begin_after = llvm.load %place_after : !llvm.ptr<1> -> i32
          %end_after = llvm.load %next_after : !llvm.ptr<1> -> i32
          %length_after = arith.subi %end_after, %begin_after : i32
          %length_after_1 = arith.subi %length_after, %c1 : i32
          %last_tile_after = arith.shrsi %length_after_1, %c7 : i32
          %tiles_after_raw = arith.addi %last_tile_after, %c1 : i32
          %has_after = arith.cmpi slt, %at, %last : i32
          %tiles_after = arith.select %has_after, %tiles_after_raw, %c0 : i32
          %more = arith.subi %tiles, %tiles_after : i32
          %causal_step = arith.muli %more, %after_raw : i32
          %step_raw = arith.select %is_causal, %causal_step, %tiles : i32
          %step = arith.select %is_document, %step_raw, %c0 : i32
          %with = scf.for %s = %c0 to %c5 step %c1 iter_args(%x = %step) -> (i32) : i32 {
            %distance = arith.shli %c1, %s : i32
            %other = nvvm.shfl.sync up %all, %x, %distance, %c0 : i32 -> i32
            %reaches = arith.cmpi uge, %lane, %distance : i32
            %added = arith.select %reaches, %other, %c0 : i32
            %next = arith.addi %x, %added : i32
            scf.yield %next : i32
          }
          %writes = arith.andi %is_writing, %is_document : i1
          scf.if %writes {
            %step_end = arith.addi %running, %with : i32
            %step_place = llvm.getelementptr %steps[%r] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
            llvm.store %step_end, %step_place : i32, !llvm.ptr<1>
          }
          %round_sum = nvvm.shfl.sync idx %all, %with, %c31, %c31 : i32 -> i32
          %running_1 = arith.addi %running, %round_sum : i32
          scf.yield %running_1 : i32
        }
        scf.if %is_first_lane {
          llvm.store %stretch_end, %own_partial : i32, !llvm.ptr<3>
        }
        nvvm.barrier0
        %stretch_sums = llvm.load %lane_partial : !llvm.ptr<3> -> i32
        %earlier_stretches = arith.select %is_earlier_warp, %stretch_sums, %c0 : i32
        %entries_before = nvvm.redux.sync add %earlier_stretches, %all : i32 -> i32
        nvvm.barrier0
        scf.yield %entries_before : i32
      }
    }

    // The second wave: one warp, lane w for wave w.
    %c16 = arith.constant 16 : i32
    %waves_2 = arith.muli %sms, %c2 : i32
    %waves_32 = arith.muli %sms, %c32 : i32
    %wave_1 = arith.divui %sms, %kv_heads : i32
    %wave_2 = arith.divui %waves_2, %kv_heads : i32
    %wave_32 = arith.divui %waves_32, %kv_heads : i32
    %deals_0 = arith.cmpi sgt, %entries, %wave_2 : i32
    %deals_1 = arith.cmpi sle, %entries, %wave_32 : i32
    %deals_2 = arith.cmpi ne, %causal, %c0 : i32
    %deals_3 = arith.cmpi eq, %warp, %c0 : i32
    %deals_01 = arith.andi %deals_0, %deals_1 : i1
    %deals_23 = arith.andi %deals_2, %deals_3 : i1
    %deals = arith.andi %deals_01, %deals_23 : i1
    scf.if %deals {
      // The tile of the wave's first entry; past the last entry 0.
      %lane_sms = arith.muli %lane, %sms : i32
      %wave = arith.divui %lane_sms, %kv_heads : i32
      %is_entry = arith.cmpi slt, %wave, %entries : i32
      %last_entry = arith.subi %entries, %c1 : i32
      %i = arith.minsi %wave, %last_entry : i32
      %tile_there = scf.if %is_uniform -> (i32) {
        %level = arith.divui %i, %documents : i32
        %last_tile = arith.subi %longest, %c1 : i32
        %t = arith.subi %last_tile, %level : i32
        scf.yield %t : i32
      } else {
        // As build_work_list does it.
        %r, %unused = scf.while (%low = %c0, %high = %last) : (i32, i32) -> (i32, i32) {
          %more = arith.cmpi slt, %low, %high : i32
          scf.condition(%more) %low, %high : i32, i32
        } do {
        ^bb0(%low: i32, %high: i32):
          %low_high = arith.addi %low, %high : i32
          %middle = arith.shrui %low_high, %c1 : i32
          %step_place = llvm.getelementptr %steps[%middle] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %step = llvm.load %step_place : !llvm.ptr<1> -> i32
          %is_past = arith.cmpi sgt, %step, %i : i32
          %above = arith.addi %middle, %c1 : i32
          %low_1 = arith.select %is_past, %low, %above : i32
          %high_1 = arith.select %is_past, %middle, %high : i32
          scf.yield %low_1, %high_1 : i32, i32
        }
        // Document r's last tile comes last of the entries that end at its step.
        %sorted_start = arith.muli %half, %documents : i32
        %sorted = llvm.getelementptr %order[%sorted_start] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %r_place = llvm.getelementptr %sorted[%r] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %d = llvm.load %r_place : !llvm.ptr<1> -> i32
        %place = llvm.getelementptr %cu[%d] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %next_place = llvm.getelementptr %place[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
        %begin = llvm.load %place : !llvm.ptr<1> -> i32
        %end = llvm.load %next_place : !llvm.ptr<1> -> i32
        %length = arith.subi %end, %begin : i32
        %length_1 = arith.subi %length, %c1 : i32
        %last_tile = arith.shrsi %length_1, %c7 : i32
        %is_first = arith.cmpi eq, %r, %c0 : i32
        %before = scf.if %is_first -> (i32) {
          scf.yield %c0 : i32
        } else {
          %r_1 = arith.subi %r, %c1 : i32
          %before_place = llvm.getelementptr %steps[%r_1] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %loaded = llvm.load %before_place : !llvm.ptr<1> -> i32
          scf.yield %loaded : i32
        }
        %within = arith.subi %i, %before : i32
        %width = arith.addi %r, %c1 : i32
        %level = arith.divui %within, %width : i32
        %t = arith.subi %last_tile, %level : i32
        scf.yield %t : i32
      }
      %tile = arith.select %is_entry, %tile_there, %c0 : i32

      // missing = 2 x(1) - x(0) - 2 x(3) + 2 x(4) - ...
      %twice = arith.shli %tile, %c1 : i32
      %minus_twice = arith.subi %c0, %twice : i32
      %minus_once = arith.subi %c0, %tile : i32
      %parity = arith.andi %lane, %c1 : i32
      %is_odd = arith.cmpi ne, %parity, %c0 : i32
      %is_wave_1 = arith.cmpi eq, %lane, %c1 : i32
      %is_wave_2 = arith.cmpi eq, %lane, %c2 : i32
      %term_0 = arith.select %is_odd, %minus_twice, %twice : i32
      %term_1 = arith.select %is_first_lane, %minus_once, %term_0 : i32
      %term_2 = arith.select %is_wave_1, %twice, %term_1 : i32
      %term = arith.select %is_wave_2, %c0, %term_2 : i32
      %missing = nvvm.redux.sync add %term, %all : i32 -> i32
      %tile_1 = nvvm.shfl.sync idx %all, %tile, %c1, %c31 : i32 -> i32
      %tile_2 = nvvm.shfl.sync idx %all, %tile, %c2, %c31 : i32 -> i32
      %difference = arith.subi %tile_1, %tile_2 : i32
      %is_missing = arith.cmpi sgt, %missing, %c16 : i32
      %is_spread = arith.cmpi sgt, %difference, %c0 : i32
      %stores_0 = arith.andi %is_missing, %is_spread : i1
      %stores = arith.andi %stores_0, %is_first_lane : i1
      scf.if %stores {
        %width = arith.subi %wave_2, %wave_1 : i32
        %product = arith.muli %width, %missing : i32
        %entries_apart = arith.divui %product, %difference : i32
        %block = arith.minui %entries_apart, %width : i32
        %place_4 = llvm.getelementptr %state[4] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
        %place_5 = llvm.getelementptr %state[5] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
        %place_6 = llvm.getelementptr %state[6] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
        llvm.store %wave_1, %place_4 : i32, !llvm.ptr<1>
        llvm.store %wave_2, %place_5 : i32, !llvm.ptr<1>
        llvm.store %block, %place_6 : i32, !llvm.ptr<1>
      }
    }
  }
  llvm.return
}

// One entry a thread.
llvm.func @build_work_list(%cu: !llvm.ptr<1>, %offsets64: i64, %order: !llvm.ptr<1>, %scale_base: !llvm.ptr<1>,
    %steps: !llvm.ptr<1>, %state: !llvm.ptr<1>, %work: !llvm.ptr<1>, %capacity64: i64, %causal: i32)
    attributes {nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 256>, flamia.launch = {
      args = [{access = "read", dims = [-1], element = "i32", name = "cu_seqlens"},
              {access = "read", dims = [2, -1], dim_names = ["", "documents"], element = "i32", name = "document_order"},
              {access = "read", dims = [-1], dim_names = ["documents"], element = "i32", name = "document_scale_base"},
              {access = "read", dims = [-1], dim_names = ["documents"], element = "i32", name = "document_steps"},
              {access = "read", dims = [8], element = "i32", name = "list_state"},
              {access = "write", dims = [-1, 4], element = "i32", name = "work"},
              {element = "i32", name = "causal"}],
      params = [{pointer = "cu_seqlens"}, {dim = 0 : i64, of = "cu_seqlens"}, {pointer = "document_order"},
                {pointer = "document_scale_base"}, {pointer = "document_steps"}, {pointer = "list_state"},
                {pointer = "work"}, {dim = 0 : i64, of = "work"}, {scalar = "causal"}],
      grid = [["work", 0, 256]], parameters = {}, threads = 256 : i64, dynamic_smem = 0 : i64, tmem_columns = 0 : i64}} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c256 = arith.constant 256 : i32
  %none = arith.constant dense<0> : vector<4xi32>
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %start = arith.muli %cta, %c256 : i32
  %place = arith.addi %start, %tid : i32
  %capacity = arith.trunci %capacity64 : i64 to i32
  %offsets = arith.trunci %offsets64 : i64 to i32
  %documents = arith.subi %offsets, %c1 : i32
  %is_causal = arith.cmpi ne, %causal, %c0 : i32
  %is_inside = arith.cmpi slt, %place, %capacity : i32
  scf.if %is_inside {
    %entries = llvm.load %state : !llvm.ptr<1> -> i32
    %is_entry = arith.cmpi slt, %place, %entries : i32
    %entry = scf.if %is_entry -> (vector<4xi32>) {
      %state_1 = llvm.getelementptr %state[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
      %state_2 = llvm.getelementptr %state[2] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
      %half = llvm.load %state_1 : !llvm.ptr<1> -> i32
      %uniform = llvm.load %state_2 : !llvm.ptr<1> -> i32
      %is_uniform = arith.cmpi sgt, %uniform, %c0 : i32

      // In the second wave another entry: the block's upper half and its lower half in turn.
      %state_4 = llvm.getelementptr %state[4] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
      %second_wave = llvm.load %state_4 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
      %wave_first = vector.extract %second_wave[0] : i32 from vector<4xi32>
      %wave_end = vector.extract %second_wave[1] : i32 from vector<4xi32>
      %block = vector.extract %second_wave[2] : i32 from vector<4xi32>
      %is_after = arith.cmpi sge, %place, %wave_first : i32
      %is_before = arith.cmpi slt, %place, %wave_end : i32
      %has_block = arith.cmpi sgt, %block, %c1 : i32
      %is_wave = arith.andi %is_after, %is_before : i1
      %is_dealt = arith.andi %is_wave, %has_block : i1
      %i = scf.if %is_dealt -> (i32) {
        %in_wave = arith.subi %place, %wave_first : i32
        %in_block = arith.remui %in_wave, %block : i32
        %block_start = arith.subi %place, %in_block : i32
        %left = arith.subi %wave_end, %block_start : i32
        %size = arith.minsi %block, %left : i32
        %half_size = arith.shrui %size, %c1 : i32
        %parity = arith.andi %in_block, %c1 : i32
        %is_odd = arith.cmpi ne, %parity, %c0 : i32
        %half_start = arith.select %is_odd, %c0, %half_size : i32
        %in_half = arith.shrui %in_block, %c1 : i32
        %start_half = arith.addi %block_start, %half_start : i32
        %dealt = arith.addi %start_half, %in_half : i32
        scf.yield %dealt : i32
      } else {
        scf.yield %place : i32
      }
      %document, %tile = scf.if %is_uniform -> (i32, i32) {
        // Tiles downwards and all documents each time, or documents and their tiles.
        %divisor = arith.select %is_causal, %documents, %uniform : i32
        %quotient = arith.divui %i, %divisor : i32
        %product = arith.muli %quotient, %divisor : i32
        %rest = arith.subi %i, %product : i32
        %last_tile = arith.subi %uniform, %c1 : i32
        %from_last = arith.subi %last_tile, %quotient : i32
        %d = arith.select %is_causal, %rest, %quotient : i32
        %t = arith.select %is_causal, %from_last, %rest : i32
        scf.yield %d, %t : i32, i32
      } else {
        // The first r whose step ends past this entry.
        %last = arith.subi %documents, %c1 : i32
        %r, %unused = scf.while (%low = %c0, %high = %last) : (i32, i32) -> (i32, i32) {
          %more = arith.cmpi slt, %low, %high : i32
          scf.condition(%more) %low, %high : i32, i32
        } do {
        ^bb0(%low: i32, %high: i32):
          %sum = arith.addi %low, %high : i32
          %middle = arith.shrui %sum, %c1 : i32
          %step_place = llvm.getelementptr %steps[%middle] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %step = llvm.load %step_place : !llvm.ptr<1> -> i32
          %is_past = arith.cmpi sgt, %step, %i : i32
          %above = arith.addi %middle, %c1 : i32
          %low_1 = arith.select %is_past, %low, %above : i32
          %high_1 = arith.select %is_past, %middle, %high : i32
          scf.yield %low_1, %high_1 : i32, i32
        }
        %is_first = arith.cmpi eq, %r, %c0 : i32
        %before = scf.if %is_first -> (i32) {
          scf.yield %c0 : i32
        } else {
          %r_1 = arith.subi %r, %c1 : i32
          %before_place = llvm.getelementptr %steps[%r_1] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %loaded = llvm.load %before_place : !llvm.ptr<1> -> i32
          scf.yield %loaded : i32
        }
        %within = arith.subi %i, %before : i32
        %sorted_start = arith.muli %half, %documents : i32
        %sorted = llvm.getelementptr %order[%sorted_start] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %r_place = llvm.getelementptr %sorted[%r] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %d_r = llvm.load %r_place : !llvm.ptr<1> -> i32
        %d, %t = scf.if %is_causal -> (i32, i32) {
          // Document r's own last tile is the first here, with r documents before it.
          %cu_place = llvm.getelementptr %cu[%d_r] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %cu_next = llvm.getelementptr %cu_place[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
          %begin = llvm.load %cu_place : !llvm.ptr<1> -> i32
          %end = llvm.load %cu_next : !llvm.ptr<1> -> i32
          %length = arith.subi %end, %begin : i32
          %length_1 = arith.subi %length, %c1 : i32
          %seven = arith.constant 7 : i32
          %last_tile = arith.shrsi %length_1, %seven : i32
          %width = arith.addi %r, %c1 : i32
          %level = arith.divui %within, %width : i32
          %product = arith.muli %level, %width : i32
          %rank = arith.subi %within, %product : i32
          %rank_place = llvm.getelementptr %sorted[%rank] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %d_rank = llvm.load %rank_place : !llvm.ptr<1> -> i32
          %t_level = arith.subi %last_tile, %level : i32
          scf.yield %d_rank, %t_level : i32, i32
        } else {
          scf.yield %d_r, %within : i32, i32
        }
        scf.yield %d, %t : i32, i32
      }
      %cu_place = llvm.getelementptr %cu[%document] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      %cu_next = llvm.getelementptr %cu_place[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
      %base_place = llvm.getelementptr %scale_base[%document] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      %begin = llvm.load %cu_place : !llvm.ptr<1> -> i32
      %end = llvm.load %cu_next : !llvm.ptr<1> -> i32
      %base = llvm.load %base_place : !llvm.ptr<1> -> i32
      %e = vector.from_elements %begin, %end, %tile, %base : vector<4xi32>
      scf.yield %e : vector<4xi32>
    } else {
      scf.yield %none : vector<4xi32>
    }
    %i64 = arith.extui %place : i32 to i64
    %target = llvm.getelementptr %work[%i64] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, vector<4xi32>
    llvm.store %entry, %target {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
  }
  llvm.return
}
