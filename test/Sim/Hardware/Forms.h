//===- Forms.h - Instruction forms and kernels made of them -----*- C++ -*-===//
//
// forms.txt lists statements over fixed registers; a kernel applies one to many
// inputs. Inputs a, b, c (32 bits), ha, hb, hc (16), A, B, C (64); results d,
// h, D and the predicate p.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TEST_SIM_HARDWARE_FORMS_H
#define FLAMIA_TEST_SIM_HARDWARE_FORMS_H

#include <string>
#include <vector>

namespace hw {

struct Form {
  /// Bits of `a` that matter when all values are tried: 32 or 16; 0: random
  /// values of all inputs.
  unsigned domain = 32;
  std::string result;    ///< d h D p
  std::string statement; ///< PTX, may hold several instructions.
};

/// Lines "DOMAIN RESULT STATEMENT"; '#' begins a comment.
std::vector<Form> readForms(const std::string &path);

/// Entry k(out, first, step, count): thread t applies the form to `count`
/// values a = (first + t * count) * step, ..., with b and c made from a by odd
/// factors, and stores a hash of the results at out[t]. Each step of the hash
/// can be undone, so a single difference never vanishes.
std::string hashKernel(const Form &form);
/// Entry k(out, first, step): thread t stores the result of
/// a = (first + t) * step as two words.
std::string valueKernel(const Form &form);
/// Entry k(out, in): thread t reads A, B, C as 64-bit words at in[3 t]; a, b, c
/// and ha, hb, hc are their low parts. Stores two words.
std::string randomKernel(const Form &form);

} // namespace hw

#endif // FLAMIA_TEST_SIM_HARDWARE_FORMS_H
