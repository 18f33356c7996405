//===- Runtime.h - All of flamia's host API ---------------------*- C++ -*-===//
//
// Includes every header of lib/Runtime: launch records, devices, kernel
// libraries and the attention API. C callers: flamia/flamia.h.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_RUNTIME_RUNTIME_H
#define FLAMIA_RUNTIME_RUNTIME_H

#include "flamia/Runtime/Attention.h"
#include "flamia/Runtime/AttentionBackward.h"
#include "flamia/Runtime/Device.h"
#include "flamia/Runtime/KernelLibrary.h"
#include "flamia/Runtime/LaunchRecord.h"

#endif // FLAMIA_RUNTIME_RUNTIME_H
