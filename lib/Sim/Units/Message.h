//===- Message.h - Building issue messages ----------------------*- C++ -*-===//
//
// printf-style text for issues; private to the units.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_SIM_UNITS_MESSAGE_H
#define FLAMIA_LIB_SIM_UNITS_MESSAGE_H

#include "flamia/Sim/Units/Issue.h"
#include <cstdarg>
#include <cstdio>
#include <string>

namespace flamia::sim {

__attribute__((format(printf, 1, 0))) inline std::string
formatList(const char *format, va_list arguments) {
  char buffer[512];
  std::vsnprintf(buffer, sizeof(buffer), format, arguments);
  return buffer;
}

__attribute__((format(printf, 1, 2))) inline std::string
formatText(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatList(format, arguments);
  va_end(arguments);
  return text;
}

/// Appends an issue and returns false, so that a check can
/// `return complain(...)`.
__attribute__((format(printf, 3, 4))) inline bool
complain(IssueList &issues, IssueKind kind, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  issues.push_back({kind, formatList(format, arguments)});
  va_end(arguments);
  return false;
}

} // namespace flamia::sim

#endif // FLAMIA_LIB_SIM_UNITS_MESSAGE_H
