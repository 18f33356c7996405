// shared_broadcast.cu - Cycles of shared memory loads whose lanes share
// addresses.
//
// What the profiler's count of passes (lib/Sim/Profiler.cpp) follows:
//   nvcc -arch=sm_90 -O3 -o shared_broadcast shared_broadcast.cu
#include <cstdint>
#include <cstdio>
template <int W, int MODE>
__device__ __forceinline__ void body(uint32_t a) {
  uint32_t x, y, z, w;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    uint32_t b = a + i * (MODE == 1 ? 0 : 16);
    if (W == 4)
      asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(x) : "r"(b));
    if (W == 8)
      asm volatile("ld.volatile.shared.v2.u32 {%0,%1}, [%2];"
                   : "=r"(x), "=r"(y)
                   : "r"(b));
    if (W == 16)
      asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                   : "r"(b));
  }
}
template <int W, int MODE>
__global__ void k(long long *out, int n) {
  extern __shared__ uint32_t s[];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x)
    s[i] = i;
  __syncthreads();
  uint32_t a = (uint32_t)__cvta_generic_to_shared(s);
  if (MODE == 1)
    a += (threadIdx.x % 32) * W +
         (threadIdx.x / 32) % 8 * 512; // each lane its own
  if (MODE == 2)
    a += (threadIdx.x % 32 / 8) * 16; // quarters
  if (MODE == 3)
    a += (threadIdx.x % 2) * 16; // two addresses interleaved
  body<W, MODE>(a);
  __syncthreads();
  long long t0 = clock64();
  for (int i = 0; i < n; ++i)
    body<W, MODE>(a);
  __syncthreads();
  long long t1 = clock64();
  if (threadIdx.x == 0)
    out[0] = t1 - t0;
}
template <int W, int MODE>
void go(const char *name) {
  long long *o, h;
  cudaMalloc(&o, 8);
  for (int warps : {1, 4, 8, 16}) {
    k<W, MODE><<<1, warps * 32, 32768>>>(o, 256);
    cudaError_t e = cudaMemcpy(&h, o, 8, cudaMemcpyDeviceToHost);
    printf("%s %d bytes, %2d warps: %.3f cycles per warp instruction on the SM "
           "(%s)\n",
           name, W, warps, double(h) / (256.0 * 32 * warps),
           cudaGetErrorString(e));
  }
}
int main() {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, 0);
  printf("%s sm_%d%d\n", p.name, p.major, p.minor);
  go<4, 0>("broadcast");
  go<8, 0>("broadcast");
  go<16, 0>("broadcast");
  go<4, 1>("distinct");
  go<8, 1>("distinct");
  go<16, 1>("distinct");
  go<16, 2>("one address a quarter warp");
  go<16, 3>("two addresses, odd/even lanes");
}
