// shared_contention.cu - What shared memory accesses of warps take, and what
// they leave to tensor products that read the same memory.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -O3 -o shared_contention
//     shared_contention.cu
//
// First table: cycles of the SM a warp instruction, each kind alone, 1 to 32
// warps. Second: warpgroups multiply with both operands in shared memory, so
// that their reads bind, while other warps access shared memory. With w cycles
// a product alone, W products and A accesses a cycle, (1 - w W) / A is what an
// access took from the products' memory.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

enum Op { Spin, Ld4, Ld8, Ld16, St2, St4, St16, Shuffle };

/// Where lane l accesses: relative to the region of its warp.
enum Where {
  One,      // all lanes one address
  Distinct, // side by side
  Quarters, // one address for each quarter of the warp
  OddEven,  // two addresses for odd and even lanes
  SameRow,  // lanes of every quarter the same 128 bytes
  TwoRows,  // two addresses in two rows of 128 bytes, the same banks
  TwoBanks, // two addresses in two rows, other banks
  Conflict, // 4 bytes, two lanes a bank
  Scattered // 2 bytes, a row of 128 bytes each lane, banks apart
};

struct Kind {
  const char *name;
  Op op;
  Where where;
};
constexpr Kind kinds[] = {
    {"arithmetic only", Spin, One},
    {"ld 4, one address", Ld4, One},
    {"ld 8, one address", Ld8, One},
    {"ld 16, one address", Ld16, One},
    {"ld 4, own", Ld4, Distinct},
    {"ld 8, own", Ld8, Distinct},
    {"ld 16, own", Ld16, Distinct},
    {"ld 16, one a quarter", Ld16, Quarters},
    {"ld 16, odd and even lanes", Ld16, OddEven},
    {"ld 16, every quarter the same 128 bytes", Ld16, SameRow},
    {"ld 16, two rows, same banks", Ld16, TwoRows},
    {"ld 16, two rows, other banks", Ld16, TwoBanks},
    {"ld 4, two rows, same banks", Ld4, TwoRows},
    {"ld 4, two lanes a bank", Ld4, Conflict},
    {"st 4, own", St4, Distinct},
    {"st 16, own", St16, Distinct},
    {"st 4, one address", St4, One},
    {"st 2, side by side", St2, Distinct},
    {"st 2, a row a lane, own banks", St2, Scattered},
    {"shfl", Shuffle, One},
};
constexpr int numKinds = sizeof(kinds) / sizeof(kinds[0]);

__host__ __device__ constexpr int bytesOf(Op op) {
  return op == Ld4 || op == St4 ? 4 : op == Ld8 ? 8 : op == St2 ? 2 : 16;
}

__device__ uint32_t offsetOf(Op op, Where where, uint32_t lane) {
  switch (where) {
  case One:
    return 0;
  case Distinct:
    return lane * bytesOf(op);
  case Quarters:
    return lane / 8 * 16;
  case OddEven:
    return lane % 2 * 16;
  case SameRow:
    return lane % 8 * 16;
  case TwoRows:
    return lane / 16 * 128;
  case TwoBanks:
    return lane / 16 * (128 + 64);
  case Conflict:
    return lane % 16 * 8 + lane / 16 * 128;
  case Scattered:
    return lane * 128 + lane * 4;
  }
  return 0;
}

// 4 accesses at fixed distances from one register. Volatile: ptxas merges equal
// loads otherwise.
template <Op op>
__device__ __forceinline__ void access(uint32_t a, uint32_t (&r)[4][4]) {
#define EACH(i)                                                                \
  if (op == Ld4)                                                               \
    asm volatile("ld.volatile.shared.u32 %0, [%1+%2];"                         \
                 : "=r"(r[i][0])                                               \
                 : "r"(a), "n"(i * 512));                                      \
  if (op == Ld8)                                                               \
    asm volatile("ld.volatile.shared.v2.u32 {%0,%1}, [%2+%3];"                 \
                 : "=r"(r[i][0]), "=r"(r[i][1])                                \
                 : "r"(a), "n"(i * 512));                                      \
  if (op == Ld16)                                                              \
    asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4+%5];"           \
                 : "=r"(r[i][0]), "=r"(r[i][1]), "=r"(r[i][2]), "=r"(r[i][3])  \
                 : "r"(a), "n"(i * 512));                                      \
  if (op == St2)                                                               \
    asm volatile("st.volatile.shared.u16 [%0+%1], %2;" ::"r"(a), "n"(i * 512), \
                 "h"(uint16_t(a)));                                            \
  if (op == St4)                                                               \
    asm volatile("st.volatile.shared.u32 [%0+%1], %2;" ::"r"(a), "n"(i * 512), \
                 "r"(a));                                                      \
  if (op == St16)                                                              \
    asm volatile("st.volatile.shared.v4.u32 [%0+%1], {%2,%2,%2,%2};" ::"r"(a), \
                 "n"(i * 512), "r"(a));                                        \
  if (op == Shuffle)                                                           \
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 31, -1;"                       \
                 : "=r"(r[i][0])                                               \
                 : "r"(r[i][0]));                                              \
  if (op == Spin)                                                              \
    asm volatile("mad.lo.u32 %0, %1, %1, %1;" : "=r"(r[i][0]) : "r"(r[i][0]));
  EACH(0) EACH(1) EACH(2) EACH(3)
#undef EACH
}

// Every loaded register is used, with one lop3 for two of them, in chains for
// each word.
template <Op op>
__device__ __forceinline__ void consume(uint32_t (&sum)[4],
                                        const uint32_t (&r)[4][4]) {
  constexpr int words = op == Ld16 ? 4 : op == Ld8 ? 2 : 1;
#pragma unroll
  for (int w = 0; w < words; ++w)
#pragma unroll
    for (int i = 0; i < 4; i += 2)
      asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;"
                   : "+r"(sum[w])
                   : "r"(r[i][w]), "r"(r[i + 1][w]));
}

/// Rates in a cycle.
struct Result {
  double accesses, products;
};

constexpr long long duration = 150000; // of accesses alone
constexpr int batches = 512;           // of 16 products

template <int N>
struct Accumulator {
  float c[N / 2];
};

#define F4(b)                                                                  \
  "+f"(acc.c[b]), "+f"(acc.c[b + 1]), "+f"(acc.c[b + 2]), "+f"(acc.c[b + 3])
#define F16(b) F4(b), F4(b + 4), F4(b + 8), F4(b + 12)

__device__ __forceinline__ void product(Accumulator<8> &acc, uint64_t a,
                                        uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
               : F4(0)
               : "l"(a), "l"(b));
}
__device__ __forceinline__ void product(Accumulator<32> &acc, uint64_t a,
                                        uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "
               "%16, %17, 1, 1, 1, 0, 0;"
               : F16(0)
               : "l"(a), "l"(b));
}
__device__ __forceinline__ void product(Accumulator<64> &acc, uint64_t a,
                                        uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "%32, %33, 1, 1, 1, 0, 0;"
      : F16(0), F16(16)
      : "l"(a), "l"(b));
}
__device__ __forceinline__ void product(Accumulator<128> &acc, uint64_t a,
                                        uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "%64, %65, 1, 1, 1, 0, 0;"
      : F16(0), F16(16), F16(32), F16(48)
      : "l"(a), "l"(b));
}

/// Of a tile of rows of 128 bytes, swizzled by 128 bytes, contracted along
/// them.
__device__ uint64_t descriptor(uint32_t address) {
  return uint64_t(address >> 4) | uint64_t(1) << 16 |
         uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

/// The first `productWarps` warps multiply (four a warpgroup, all of which must
/// make the same products), the others access until a warpgroup is through.
template <Op op, int N>
__global__ void __launch_bounds__(N ? 512 : 1024, 1)
    measure(Result *out, int where, int productWarps, int apart) {
  extern __shared__ __align__(1024) char shared[];
  __shared__ volatile int through;
  for (int i = threadIdx.x * 4; i < 96 * 1024; i += blockDim.x * 4)
    *reinterpret_cast<uint32_t *>(shared + i) = 0;
  through = 0;
  asm volatile("fence.proxy.async.shared::cta;");
  uint32_t base = uint32_t(__cvta_generic_to_shared(shared));
  uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();
  long long start = clock64();
  if (N && warp < productWarps) {
    if constexpr (N != 0) {
      Accumulator<N> acc = {};
      uint64_t a = descriptor(base + 16384 + warp / 4 * 8192);
      uint64_t b = descriptor(base + 49152 + warp / 4 * 16384);
      for (int batch = 0; batch < batches; ++batch) {
        asm volatile("wgmma.fence.sync.aligned;");
#pragma unroll
        for (int i = 0; i < 16; ++i)
          product(acc, a + i % 4 * 2, b + i % 4 * 2);
        asm volatile("wgmma.commit_group.sync.aligned;");
        asm volatile("wgmma.wait_group.sync.aligned 1;");
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;");
      if (threadIdx.x % 128 == 0) {
        atomicAdd(&out->products, 16.0 * batches / double(clock64() - start));
        through = 1;
      }
      float sum = 0;
      for (int i = 0; i < N / 2; ++i)
        sum += acc.c[i];
      if (sum != 0)
        out->products = 0;
    }
  } else {
    uint32_t address =
        base + offsetOf(op, Where(where), lane) + (apart ? warp % 8 * 16 : 0);
    uint32_t sum[4] = {};
    uint32_t even[4][4] = {{lane}, {lane}, {lane}, {lane}};
    uint32_t odd[4][4] = {{lane}, {lane}, {lane}, {lane}};
    access<op>(address, even);
    unsigned long long count = 0;
    do {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        access<op>(address + 2048 * (i % 2), odd);
        consume<op>(sum, even);
        access<op>(address + 2048 * (i % 2), even);
        consume<op>(sum, odd);
      }
      count += 64;
    } while (N ? !through : clock64() - start < duration);
    if (lane == 0)
      atomicAdd(&out->accesses, double(count) / double(clock64() - start));
    if ((sum[0] ^ sum[1] ^ sum[2] ^ sum[3]) == 1)
      out->accesses = 0;
  }
}

Result *device;

template <Op op, int N>
Result run(Where where, int productWarps, int accessWarps, int apart = 0) {
  Result best = {};
  for (int repeat = 0; repeat < 3; ++repeat) {
    cudaMemset(device, 0, sizeof(Result));
    int bytes = 96 * 1024;
    cudaFuncSetAttribute(measure<op, N>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    measure<op, N><<<1, 32 * (productWarps + accessWarps), bytes>>>(
        device, where, productWarps, apart);
    // A launch that is refused shows here and nowhere later.
    cudaError_t error = cudaGetLastError();
    Result r;
    if (error == cudaSuccess)
      error = cudaMemcpy(&r, device, sizeof r, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) {
      printf("failed: %s\n", cudaGetErrorString(error));
      exit(1);
    }
    best = r; // the last: clocks have risen
  }
  return best;
}

template <Op op>
void alone(const Kind &kind, int apart) {
  printf("%-40s%s", kind.name, apart ? ", other banks each warp" : "");
  for (int warps : {1, 2, 4, 8, 12, 16, 20, 24, 32}) {
    Result r = run<op, 0>(kind.where, 0, warps, apart);
    printf(" %6.3f", 1 / r.accesses);
  }
  printf("\n");
  fflush(stdout);
}

template <int N>
double productAlone(int productWarps) {
  Result r = run<Spin, N>(One, productWarps, 0);
  return 1 / r.products;
}

template <Op op, int N>
void beside(const Kind &kind, int productWarps, double w) {
  printf("%3d %d %-40s", N, productWarps, kind.name);
  for (int warps : {1, 2, 4, 8}) {
    Result r = run<op, N>(kind.where, productWarps, warps);
    printf(" | %6.2f %6.3f %6.3f", 1 / r.products, r.accesses,
           (1 - w * r.products) / r.accesses);
  }
  printf("\n");
  fflush(stdout);
}

template <typename F>
void dispatch(Op op, F f) {
  switch (op) {
#define CASE(X)                                                                \
  case X:                                                                      \
    f(std::integral_constant<Op, X>());                                        \
    break;
    CASE(Spin)
    CASE(Ld4) CASE(Ld8) CASE(Ld16) CASE(St2) CASE(St4) CASE(St16) CASE(Shuffle)
#undef CASE
  }
}

template <int N>
void table(int productWarps) {
  double w = productAlone<N>(productWarps);
  printf("m64n%dk16, %d warps: %.2f cycles a product alone\n", N, productWarps,
         w);
  for (const Kind &kind : kinds)
    dispatch(kind.op, [&](auto op) {
      beside<decltype(op)::value, N>(kind, productWarps, w);
    });
}

} // namespace

int main() {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, 0);
  printf("%s sm_%d%d\n", p.name, p.major, p.minor);
  cudaMalloc(&device, sizeof(Result));
  printf("cycles a warp instruction; 1, 2, 4, 8, 12, 16, 20, 24, 32 warps\n");
  for (int i = 1; i < numKinds; ++i)
    for (int apart : {0, 1})
      if (!apart || kinds[i].where == One)
        dispatch(kinds[i].op,
                 [&](auto op) { alone<decltype(op)::value>(kinds[i], apart); });
  printf("beside products; 1, 2, 4, 8 warps: cycles a product, accesses a "
         "cycle, cycles of the products' memory an access\n");
  for (int productWarps : {4, 8, 12})
    printf("products alone, %d warps: n8 %.2f n32 %.2f n64 %.2f n128 %.2f\n",
           productWarps, productAlone<8>(productWarps),
           productAlone<32>(productWarps), productAlone<64>(productWarps),
           productAlone<128>(productWarps));
  table<8>(4);
  table<8>(8);
  table<32>(8);
  table<64>(8);
  table<128>(8);
  return 0;
}
