/* Integer code: 128-bit products and quotients, overflow and saturation, bit
   tricks, rotations, switch tables, loops over local arrays and constants. */
#define WORDS 24
#include "program.h"

#ifdef __NVPTX__
#define REVERSE32 __builtin_bitreverse32
#define REVERSE16 __builtin_bitreverse16
#else
static u32 REVERSE32(u32 v) {
  u32 r = 0;
  for (int i = 0; i < 32; ++i)
    r |= (v >> i & 1) << (31 - i);
  return r;
}
static u32 REVERSE16(u16 v) { return REVERSE32(v) >> 16; }
#endif

typedef unsigned __int128 u128;
typedef __int128 s128;

static const u16 primes[16] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};

static u32 step(u32 op, u32 a, u32 b) {
  switch (op) {
  case 0: return a + b;
  case 1: return a - b * 3;
  case 2: return (a >> (b & 15)) | 1;
  case 3: return a ^ (b << 7);
  case 4: return a * 2654435761u;
  case 5: return __builtin_bswap32(a) + b;
  case 6: return a / (b | 1);
  case 7: return a % (b | 3);
  case 8: return ~a & b;
  case 9: return (u32)((s32)a >> 3);
  default: return a + op;
  }
}

static void body(unsigned t, const u64 *in, u64 *out) {
  u64 a = in[t], b = in[(t + 7) % INPUTS], c = in[(t + 21) % INPUTS];
  u32 x = (u32)a, y = (u32)b, z = (u32)(c >> 32);
  u128 p = (u128)a * b + c;
  out[0] = (u64)p;
  out[1] = (u64)(p >> 64);
  s128 q = (s128)(s64)a * (s64)b - (s64)c;
  out[2] = (u64)(q >> 64) ^ (u64)q;
  out[3] = a / (b | 1) + (u64)((s64)c / ((s64)b | 1));
  out[4] = a % (b | 1) ^ (u64)((s64)c % (s64)(y | 1));
  u64 s;
  out[5] = (u64)__builtin_add_overflow(a, b, &s) + s;
  s64 d;
  out[6] = (u64)__builtin_mul_overflow((s64)x, (s64)c, &d) ^ (u64)d;
  out[7] = (u64)__builtin_popcountll(a) | (u64)__builtin_clzll(b | 1) << 8 | (u64)__builtin_ctzll(c | 1ull << 63) << 16 |
           (u64)(a ? __builtin_ffsll((s64)a) : 0) << 24 | (u64)__builtin_parity(x) << 32;
  out[8] = (x << (t & 31) | x >> ((32 - t) & 31)) + ((a << (t & 63) | a >> ((64 - t) & 63)) ^ __builtin_bswap64(b));
  u32 acc = x;
  for (u32 i = 0; i < 24; ++i)
    acc = step((u32)(in[i] + t) % 11, acc, y + i);
  out[9] = acc;
  u32 sorted[8];
  for (int i = 0; i < 8; ++i)
    sorted[i] = (u32)(in[(t + i) % INPUTS] >> (4 * i));
  for (int i = 1; i < 8; ++i)
    for (int j = i; j > 0 && sorted[j - 1] > sorted[j]; --j) {
      u32 m = sorted[j];
      sorted[j] = sorted[j - 1];
      sorted[j - 1] = m;
    }
  out[10] = sorted[t & 7] ^ (u64)sorted[(t + 3) & 7] << 32;
  u32 mod = 1;
  for (int i = 0; i < 16; ++i)
    if (x % primes[(i + t) & 15] == 0)
      mod = mod * primes[i] + i;
  out[11] = mod;
  s8 sx = (s8)x;
  s16 sy = (s16)y;
  out[12] = (u64)(s64)sx + (u64)(s64)sy * (u8)z;
  out[13] = (u32)(sx * sy) | (u64)(u16)(x - y) << 32;
  s32 sat = (s32)x;
  out[14] = (u64)(__builtin_add_overflow(sat, (s32)y, &sat) ? 0x80000000u : (u32)sat);
  out[15] = (x > y ? x - y : y - x) + (u64)((s32)z < 0 ? -(s32)z : (s32)z);
  out[16] = ((s64)a < (s64)b ? a : b) ^ (a > c ? a : c);
  out[17] = (x >> 5 & 0x7FF) | (u64)(((s32)y << 9) >> 20) << 32;
  out[18] = (x & ~0xFF00u) | (y & 0xFF) << 8;
  u8 bytes[16];
  __builtin_memcpy(bytes, &in[t % 32], 16);
  u64 h = 1469598103934665603ull;
  for (int i = 0; i < 16; ++i)
    h = (h ^ bytes[(i * 5 + t) & 15]) * 1099511628211ull;
  out[19] = h;
  out[20] = (u64)((u128)a << (t & 127)) ^ (u64)(((u128)b << 64 | a) >> (t * 2 & 127));
  out[21] = (a == b) | (u64)(a < c) << 1 | (u64)((s64)b >= (s64)c) << 2 | (u64)((x & y) == 0) << 3;
  u64 w = a;
  u32 steps = 0;
  while (w != 1 && steps < 200) {
    w = w & 1 ? (w >> 1) ^ 0xD800000000000000ull : w >> 1;
    ++steps;
    if (w == 0)
      break;
  }
  out[22] = w + steps;
  out[23] = (u64)REVERSE32(x) << 32 | REVERSE16((u16)y);
}
