// Checks on a Hopper GPU that ragged tensor maps clip a TMA load at a document's end, which is what
// every tile load of flamia's kernels relies on (docs/dialect-tcgen.md).
//
// A row-major tensor [rows, heads, cols] gets two extra dimensions X (2^30, stride s) and A (2^31,
// stride 2^34 - s) beside Y (2^31, stride s). With n = limit - row, the coordinates
// x = 2^30 - n, y = row + n, a = 2^30 address 2^64 + row * s = row * s (modulo 2^64), and rows at or
// past `limit` fall outside X: they read as zero.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -std=c++17 -o ragged_tma ragged_tma.cu && ./ragged_tma
//
// The driver's entry point is fetched at run time, so nothing links libcuda.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    auto status = (call);                                                                                              \
    if (static_cast<int>(status) != 0) {                                                                               \
      std::printf("%s:%d: error %d in %s\n", __FILE__, __LINE__, static_cast<int>(status), #call);                     \
      std::exit(1);                                                                                                    \
    }                                                                                                                  \
  } while (0)

constexpr int kRows = 128;

__global__ void loadTile(const __grid_constant__ CUtensorMap map, uint8_t *out, int head, int row, int limit, int span,
                         int slabs, int elementBytes) {
  extern __shared__ __align__(1024) uint8_t tile[];
  __shared__ __align__(8) uint64_t barrier;
  uint32_t bar = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(bar) : "memory");
  for (int i = threadIdx.x; i < slabs * kRows * span; i += blockDim.x)
    tile[i] = 0xAA; // poison
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    int n = min(limit - row, 256);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(slabs * kRows * span)
                 : "memory");
    for (int slab = 0; slab < slabs; ++slab)
      asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                   "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(base + slab * kRows * span),
                   "l"(&map), "r"(slab * span / elementBytes), "r"(head), "r"((1 << 30) - n), "r"(row + n),
                   "r"(1 << 30), "r"(bar)
                   : "memory");
  }
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }" ::"r"(bar)
               : "memory");
  for (int i = threadIdx.x; i < slabs * kRows * span; i += blockDim.x)
    out[i] = tile[i];
}

using Encode = decltype(&cuTensorMapEncodeTiled);

static Encode getEncode() {
  void *entry = nullptr;
  cudaDriverEntryPointQueryResult result;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result));
  return reinterpret_cast<Encode>(entry);
}

/// One case; returns the number of wrong bytes.
static long check(Encode encode, long rows, int heads, int cols, int elementBytes, int head, int row, int limit) {
  long rowBytes = static_cast<long>(heads) * cols * elementBytes;
  std::vector<uint8_t> host(rows * rowBytes);
  for (size_t i = 0; i < host.size(); ++i)
    host[i] = static_cast<uint8_t>((i * 2654435761u) >> 13 | 1);
  uint8_t *device, *out;
  CHECK(cudaMalloc(&device, host.size()));
  CHECK(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice));
  int span = std::min(128, cols * elementBytes), slabs = cols * elementBytes / span;
  CHECK(cudaMalloc(&out, slabs * kRows * span));

  CUtensorMap map;
  cuuint64_t s = rowBytes;
  cuuint64_t dims[5] = {(cuuint64_t)cols, (cuuint64_t)heads, 1ull << 30, 1ull << 31, 1ull << 31};
  cuuint64_t strides[4] = {(cuuint64_t)cols * elementBytes, s, s, (1ull << 34) - s};
  cuuint32_t box[5] = {(cuuint32_t)(span / elementBytes), 1, kRows, 1, 1};
  cuuint32_t elementStrides[5] = {1, 1, 1, 1, 1};
  CUtensorMapSwizzle swizzle = span == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                               : span == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                            : CU_TENSOR_MAP_SWIZZLE_32B;
  CHECK(encode(&map, elementBytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5, device,
               dims, strides, box, elementStrides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
               CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  int bytes = slabs * kRows * span;
  CHECK(cudaFuncSetAttribute(loadTile, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  loadTile<<<1, 128, bytes>>>(map, out, head, row, limit, span, slabs, elementBytes);
  CHECK(cudaDeviceSynchronize());
  std::vector<uint8_t> image(bytes);
  CHECK(cudaMemcpy(image.data(), out, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));
  CHECK(cudaFree(out));

  long wrong = 0;
  for (int slab = 0; slab < slabs; ++slab)
    for (int r = 0; r < kRows; ++r)
      for (int b = 0; b < span; ++b) {
        int address = slab * kRows * span + r * span + b;
        int mask = span == 128 ? 0x70 : span == 64 ? 0x30 : 0x10;
        int phys = address ^ ((address >> 3) & mask);
        bool inside = row + r < limit;
        uint8_t want = inside ? host[(row + r) * rowBytes + (long)head * cols * elementBytes + slab * span + b] : 0;
        wrong += image[phys] != want;
      }
  return wrong;
}

int main() {
  Encode encode = getEncode();
  struct Case {
    long rows;
    int heads, cols, elementBytes, head, row, limit;
  } cases[] = {
      {1000, 3, 128, 1, 1, 0, 128},   {1000, 3, 128, 1, 2, 100, 131}, {1000, 3, 128, 1, 0, 872, 1000},
      {1000, 3, 128, 1, 0, 999, 1000}, {1000, 2, 64, 1, 1, 7, 70},    {1000, 2, 128, 2, 1, 33, 90},
      {1000, 2, 64, 2, 0, 513, 640},  {1000, 2, 128, 1, 1, 50, 50},   {1000, 2, 128, 1, 1, 60, 50},
      {70000, 64, 128, 2, 63, 69990, 70000}, // offsets past 2^30 bytes
      {1000, 1, 32, 1, 0, 3, 500},
  };
  long total = 0;
  for (const Case &c : cases) {
    long wrong = check(encode, c.rows, c.heads, c.cols, c.elementBytes, c.head, c.row, c.limit);
    std::printf("rows %ld heads %d cols %d bytes %d head %d row %d limit %d: %ld wrong bytes\n", c.rows, c.heads, c.cols,
                c.elementBytes, c.head, c.row, c.limit, wrong);
    total += wrong;
  }
  std::printf("%s\n", total ? "FAIL" : "PASS");
  return total != 0;
}
