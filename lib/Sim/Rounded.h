//===- Rounded.h - Arithmetic in a directed rounding mode -------*- C++ -*-===//
#ifndef FLAMIA_LIB_SIM_ROUNDED_H
#define FLAMIA_LIB_SIM_ROUNDED_H

#include <cstdint>

namespace flamia {
namespace sim {

enum class Rounding : uint8_t { Near, Zero, Down, Up };
enum class FloatOp : uint8_t { Add, Sub, Mul, Fma, Div, Sqrt };

/// a op b (op c) rounded as asked. Slow: for the directed modes only.
float roundedOp(FloatOp op, Rounding mode, float a, float b, float c);
double roundedOp(FloatOp op, Rounding mode, double a, double b, double c);
/// Conversions that may be inexact.
float roundedFromInt(Rounding mode, int64_t value);
float roundedFromUnsigned(Rounding mode, uint64_t value);
double roundedDoubleFromInt(Rounding mode, int64_t value);
double roundedDoubleFromUnsigned(Rounding mode, uint64_t value);
float roundedFromDouble(Rounding mode, double value);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_ROUNDED_H
