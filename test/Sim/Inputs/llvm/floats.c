/* Floating point whose every bit C defines: fp32, fp64 and fp16 without
   contraction, conversions, comparisons with NaN, rounding functions. NaN
   results are not stored: their bits differ between machines. */
#define WORDS 22
#include "program.h"

static u64 put32(float f) { return f != f ? 0x7fc0 : bits32(f); }
static u64 put64(double d) { return d != d ? 0x7ff8 : bits64(d); }
static float clean(u64 v) {
  u32 b = (u32)v;
  return (b & 0x7f800000) == 0x7f800000 ? float32(b & 0xff8fffff) : float32(b);
}

static void body(unsigned t, const u64 *in, u64 *out) {
  u64 ra = in[t], rb = in[(t + 5) % INPUTS], rc = in[(t + 11) % INPUTS];
  float a = clean(ra), b = clean(rb), c = clean(rc);
  float s = (float)(s32)(ra >> 40) * 0.37f, r = (float)(s16)rb / 3.0f;
  double da = float64(0x3ff0000000000000ull | ra >> 12), db = (double)(s64)rb * 1e-10, dc = (double)rc;
  out[0] = put32(a + b);
  out[1] = put32(a * b);
  out[2] = put32(__builtin_fmaf(s, r, a));
  out[3] = put32(a / b);
  out[4] = put32(__builtin_sqrtf(__builtin_fabsf(s)));
  out[5] = put32(__builtin_floorf(s) + __builtin_ceilf(r) + __builtin_truncf(s * 1.5f));
  out[6] = put32(__builtin_rintf(s) - __builtin_nearbyintf(r));
  out[7] = put32(__builtin_fminf(a, s)) ^ put32(__builtin_fmaxf(b, r)) << 32;
  out[8] = put32(__builtin_copysignf(s, c)) | (u64)(a < b) << 32 | (u64)(a == a) << 33 | (u64)!(s > r) << 34;
  out[9] = put64(da * db + dc);
  out[10] = put64(da / db);
  out[11] = put64(__builtin_sqrt(da) - __builtin_fma(da, db, dc));
  out[12] = (u64)(s64)(s * 1000.0f) ^ (u64)(u32)(s32)r << 32;
  out[13] = (u64)(__builtin_fabs(db) * 3.0);
  out[14] = put32((float)dc) ^ put32((float)(u64)rb) << 32;
  out[15] = put64((double)s * 3.0) ^ put64((double)(u32)ra);
  _Float16 h = (_Float16)s, g = (_Float16)r;
  _Float16 sum = h + g, product = h * g;
  float hs = (float)sum, hp = (float)product;
  out[16] = put32(hs);
  out[17] = put32(hp);
  _Float16 q = h / (g + (_Float16)1.0f);
  float whole = (float)h;
  out[18] = put32((float)q) ^ (u64)(u32)(whole < 30000 && whole > -30000 ? (s32)h : 7) << 32;
  out[19] = (h < g) | (u64)(h == h) << 1 | (u64)(h != g) << 2;
  float poly = 0;
  for (int i = 0; i < 12; ++i)
    poly = poly * r * 0.01f + (float)(s8)(in[i] >> t % 48);
  out[20] = put32(poly);
  double series = 1, term = 1;
  for (int i = 1; i < 20; ++i) {
    term = term * (da - 1.5) / i;
    series = series + term;
  }
  out[21] = put64(series);
}
