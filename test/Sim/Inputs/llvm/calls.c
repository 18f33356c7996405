/* Device functions: parameters and results of all sizes, structs by value,
   recursion, tables of functions, pointers to the caller's variables, arrays of
   run-time size. */
#define WORDS 14
#include "program.h"

struct Pair {
  u32 a;
  u8 b;
  u64 c;
};
struct Big {
  u64 v[5];
  u16 tail;
};

NOINLINE static u32 add3(u32 a, s16 b, u8 c) { return a + (u32)b + c; }
NOINLINE static s8 narrow(s8 a, s8 b) { return (s8)(a * 3 - b); }
NOINLINE static float scale(float x, double y) { return (float)(x * y); }
NOINLINE static struct Pair swap(struct Pair p) {
  struct Pair r = {(u32)p.c, (u8)(p.b + 1), p.a + p.c};
  return r;
}
NOINLINE static struct Big spread(struct Big b, u32 k) {
  for (int i = 0; i < 5; ++i)
    b.v[i] = b.v[i] * (k + i) + b.tail;
  b.tail ^= (u16)k;
  return b;
}
NOINLINE static u64 sum(const u32 *v, u32 n) {
  u64 s = 0;
  for (u32 i = 0; i < n; ++i)
    s += v[i] * (u64)(i + 1);
  return s;
}
NOINLINE static u32 fib(u32 n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static u32 odd(u32 n);
NOINLINE static u32 even(u32 n) { return n == 0 ? 17 : 3 * odd(n - 1) + 1; }
NOINLINE static u32 odd(u32 n) { return n == 0 ? 29 : 5 * even(n - 1) + n; }
NOINLINE static u64 gcd(u64 a, u64 b) { return b == 0 ? a : gcd(b, a % b) + (a & 1); }

typedef u32 (*Op)(u32, u32);
NOINLINE static u32 opAdd(u32 a, u32 b) { return a + b; }
NOINLINE static u32 opXor(u32 a, u32 b) { return a ^ b; }
NOINLINE static u32 opMul(u32 a, u32 b) { return a * b; }
NOINLINE static u32 opDeep(u32 a, u32 b) { return fib(a & 7) + opMul(b, 3); }
static const Op table[4] = {opAdd, opXor, opMul, opDeep};

NOINLINE static u64 reversed(u32 n, u64 seed) {
  u32 *v = (u32 *)__builtin_alloca(n * sizeof(u32));
  for (u32 i = 0; i < n; ++i)
    v[n - 1 - i] = (u32)(seed >> (i & 31)) + i;
  return sum(v, n);
}
NOINLINE static void early(u32 t, u64 *out) {
  if (t & 1) {
    *out = 1000 + t;
    return;
  }
  for (u32 i = 0; i < t; ++i)
    if (i * i > 300) {
      *out = i;
      return;
    }
  *out = 7;
}

static void body(unsigned t, const u64 *in, u64 *out) {
  out[0] = add3((u32)in[t], (s16)in[1], (u8)(t * 5));
  out[1] = (u64)(s64)narrow((s8)in[2], (s8)t);
  out[2] = bits32(scale((float)(s32)in[3], t * 0.25));
  struct Pair p = {t, (u8)(250 + t), in[4]};
  p = swap(p);
  out[3] = p.a + ((u64)p.b << 32);
  out[4] = p.c;
  struct Big b = {{in[5], in[6], t, 4, 5}, (u16)in[7]};
  b = spread(b, t);
  out[5] = b.v[0] ^ b.v[1] ^ (b.v[2] << 1) ^ b.v[3] ^ b.v[4];
  out[6] = b.tail;
  u32 local[12];
  for (int i = 0; i < 12; ++i)
    local[i] = (u32)in[i + 8] + t * i;
  out[7] = sum(local, 12 - t % 5);
  out[8] = fib(t % 9 + 1);
  out[9] = even(t % 7) + ((u64)odd(t % 5) << 32);
  out[10] = gcd(in[20] | 1, in[21 + t % 8] | 1);
  out[11] = table[(t + in[30]) & 3](t, (u32)in[31]);
  out[12] = reversed(t % 13 + 1, in[32]);
  early(t, &out[13]);
}
