//===- Clones.h - Functions compiled for several CPUs -----------*- C++ -*-===//
//
// FLAMIA_CLONES before a function compiles it for several x86-64 levels; the
// loader picks one. Results must not depend on the level: no expression may be
// contracted to an fma (FLAMIA_NO_CONTRACT first in the body, std::fma where
// one is meant).
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_NUMERICS_CLONES_H
#define FLAMIA_LIB_NUMERICS_CLONES_H

// Sanitizers' runtimes are not ready when the loader resolves the clones.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
    __has_feature(memory_sanitizer)
#define FLAMIA_CLONES
#endif
#endif

#ifndef FLAMIA_CLONES
#if defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define FLAMIA_CLONES                                                          \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FLAMIA_CLONES
#endif
#endif

#if defined(__clang__)
#define FLAMIA_NO_CONTRACT _Pragma("clang fp contract(off)")
#else
#define FLAMIA_NO_CONTRACT
#endif

#endif // FLAMIA_LIB_NUMERICS_CLONES_H
