/* Plain C for two machines: clang's NVPTX back end, and the host compiler,
   which runs the threads one after another and gives the expected results. A
   program defines `static void body(unsigned t, const u64 *in, u64 *out)`:
   thread t of THREADS reads in[] (INPUTS words, the same for all) and writes
   out[0..WORDS). */
#ifndef PROGRAM_H
#define PROGRAM_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define THREADS 64
#define INPUTS 64

#define NOINLINE __attribute__((noinline))

static void body(unsigned t, const u64 *in, u64 *out);

static inline u64 bits64(double d) {
  u64 b;
  __builtin_memcpy(&b, &d, 8);
  return b;
}
static inline u32 bits32(float f) {
  u32 b;
  __builtin_memcpy(&b, &f, 4);
  return b;
}
static inline float float32(u32 b) {
  float f;
  __builtin_memcpy(&f, &b, 4);
  return f;
}
static inline double float64(u64 b) {
  double d;
  __builtin_memcpy(&d, &b, 8);
  return d;
}

#ifdef __NVPTX__
#define CONSTANT __attribute__((address_space(4)))
__attribute__((device_kernel)) void k(const u64 *in, u64 *out) {
  unsigned t = __nvvm_read_ptx_sreg_tid_x();
  body(t, in, out + t * WORDS);
}
#else
#define CONSTANT
#include <stdio.h>
int main(void) {
  static u64 in[INPUTS], out[THREADS * WORDS];
  if (fread(in, 8, INPUTS, stdin) != INPUTS)
    return 1;
  for (unsigned t = 0; t < THREADS; ++t)
    body(t, in, out + t * WORDS);
  return fwrite(out, 8, THREADS * WORDS, stdout) != THREADS * WORDS;
}
#endif
#endif
