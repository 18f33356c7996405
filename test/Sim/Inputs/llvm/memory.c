/* Memory: vectors, volatile, structures, atomics on private words of a global
   array, shared memory between the threads of a warp's turn, unaligned copies. */
#define WORDS 16
#include "program.h"

typedef float f4 __attribute__((vector_size(16)));
typedef u32 v4 __attribute__((vector_size(16)));
typedef u64 w4 __attribute__((vector_size(32)));
typedef u16 h8 __attribute__((vector_size(16)));

struct Node {
  u8 tag;
  u16 count;
  u32 next;
  u64 value;
};

static void body(unsigned t, const u64 *in, u64 *out) {
  v4 a = *(const v4 *)(in + t / 4 * 2), b = *(const v4 *)(in + 32);
  v4 c = a * b + (v4){t, 1, 2, 3};
  *(v4 *)out = c;
  w4 w = *(const w4 *)(in + t / 8 * 4);
  w4 x = w ^ (w >> 7);
  out[2] = x[0] + x[3];
  out[3] = x[t & 3];
  h8 h = *(const h8 *)(in + 8 + (t & 7) * 2);
  h = h + (h8){1, 2, 3, 4, 5, 6, 7, 8};
  out[4] = h[t & 7] | (u64)h[7] << 16 | (u64)(h[2] > h[3]) << 32;
  volatile u32 *word = (volatile u32 *)&out[5];
  *word = t;
  *word = *word * 3 + 1;
  ((volatile u8 *)word)[4] = (u8)*word;
  ((volatile u8 *)word)[5] = 0;
  ((volatile u16 *)word)[3] = (u16)(*word >> 1);
  out[6] = in[t];
  u32 *at = (u32 *)&out[6];
  u32 r = __atomic_fetch_add(at, 5, __ATOMIC_RELAXED);
  r ^= __atomic_fetch_xor(at, t, __ATOMIC_ACQ_REL) + __atomic_fetch_or(at + 1, 64, __ATOMIC_SEQ_CST);
  r += __atomic_exchange_n(at, r, __ATOMIC_ACQUIRE);
  u32 expected = r - 1;
  r += (u32)__atomic_compare_exchange_n(at, &expected, 9, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  r += __atomic_fetch_sub(at + 1, 3, __ATOMIC_RELEASE) ^ expected;
  out[7] = r;
  out[8] = in[t] >> 3;
  out[8] = __atomic_fetch_add(&out[8], in[1], __ATOMIC_RELAXED) + __atomic_load_n(&out[8], __ATOMIC_ACQUIRE);
  struct Node nodes[6];
  for (u32 i = 0; i < 6; ++i)
    nodes[i] = (struct Node){(u8)(i + t), (u16)(in[i] >> 5), (i * 5 + 1) % 6, in[i + 6] + t};
  u32 n = t % 6;
  u64 walk = 0;
  for (int i = 0; i < 9; ++i) {
    walk = walk * 31 + nodes[n].value + nodes[n].tag * nodes[n].count;
    n = nodes[n].next;
  }
  out[9] = walk;
  struct Node copy = nodes[t % 5];
  __builtin_memcpy((u8 *)&copy + 8, (const u8 *)in + 3 + t, 8);
  out[10] = copy.value ^ copy.count;
  u64 odd;
  __builtin_memcpy(&odd, (const u8 *)in + t * 3 + 1, 8);
  out[11] = odd;
  u8 line[40];
  __builtin_memset(line, (int)t, 40);
  __builtin_memcpy(line + t % 16, in + 2, 17);
  u64 h64 = 0;
  for (int i = 0; i < 40; ++i)
    h64 = h64 * 257 + line[i];
  out[12] = h64;
  f4 f = {(float)t, 1.5f, 2.25f, -3.0f};
  f = f * f - (f4){1, 2, 3, (float)(t & 3)};
  out[13] = bits32(f[0]) | (u64)bits32(f[t & 3]) << 32;
  _Bool flags[8];
  for (int i = 0; i < 8; ++i)
    flags[i] = in[i] >> t & 1;
  u64 packed = 0;
  for (int i = 0; i < 8; ++i)
    packed = packed << 1 | flags[(i * 3 + t) & 7];
  out[14] = packed;
  const u8 *text = (const u8 *)"microscaled attention";
  u64 l = 0;
  while (text[l] != (u8)('a' + t % 26) && text[l])
    ++l;
  out[15] = l;
}
