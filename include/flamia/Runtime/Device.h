//===- Device.h - Devices that run compiled kernels -------------*- C++ -*-===//
//
// One interface, two back ends: the PTX simulator and the CUDA driver (opened
// at run time, never linked). Memory and streams belong to the caller. Work is
// split so that a launch neither allocates nor synchronizes:
//
//   load     once per kernel and device: code, launch attributes
//   prepare  once per set of arguments: checks, tensor maps, parameters
//   launch   as often as wanted, also while a CUDA graph is captured
//
// All errors are values; nothing exits or throws. A device must outlive its
// kernels, and a kernel its prepared launches. Objects are not thread-safe.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_RUNTIME_DEVICE_H
#define FLAMIA_RUNTIME_DEVICE_H

#include "flamia/Runtime/LaunchRecord.h"

#include <memory>
#include <string>

namespace flamia {
namespace sim {
struct SimOptions;
} // namespace sim

namespace runtime {

/// Why something failed, for callers that must tell cases apart.
enum class ErrorCode {
  InvalidArgument, ///< a value breaks a documented rule
  NotSupported,    ///< legal, but not in this version or on this device
  NoDevice,        ///< no driver, no GPU, or not the one that was asked for
  NotFound,        ///< a file or a kernel does not exist
  LaunchFailed     ///< the device reported an error
};

/// An error with a code. Messages are lower case, without full stop.
class RuntimeError : public llvm::ErrorInfo<RuntimeError> {
public:
  static char ID;
  RuntimeError(ErrorCode code, std::string text)
      : code(code), text(std::move(text)) {}
  ErrorCode errorCode() const { return code; }
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

private:
  ErrorCode code;
  std::string text;
};

llvm::Error makeError(ErrorCode code, const llvm::Twine &message);

/// Arguments bound to a kernel. The addresses are fixed; the memory behind them
/// may change between launches.
class PreparedLaunch {
public:
  virtual ~PreparedLaunch();
  /// Enqueues the kernel on `stream` (a CUstream; null is the default stream).
  /// Allocates nothing and waits for nothing; an empty grid is a no-op. The
  /// simulator ignores the stream and runs the kernel to its end.
  virtual llvm::Error launch(void *stream = nullptr) = 0;
};

/// A kernel loaded on a device.
class Kernel {
public:
  virtual ~Kernel();
  const LaunchRecord &record() const { return launchRecord; }
  /// Checks the arguments and \p choice (LaunchRecord.h, bindArguments) and
  /// makes everything a launch needs.
  virtual llvm::Expected<std::unique_ptr<PreparedLaunch>>
  prepare(llvm::ArrayRef<Argument> arguments,
          const GridChoice &choice = {}) = 0;

protected:
  explicit Kernel(LaunchRecord record) : launchRecord(std::move(record)) {}
  LaunchRecord launchRecord;
};

class Device {
public:
  virtual ~Device();
  /// "simulator" or the GPU's name.
  virtual std::string name() const = 0;
  /// Streaming multiprocessors; the simulator counts as a B200 of 148. Only the
  /// order of work depends on it.
  virtual int64_t sms() const = 0;
  virtual llvm::Expected<std::unique_ptr<Kernel>>
  load(const LaunchRecord &record) = 0;

  // Memory, for callers that do not bring their own. Addresses are multiples
  // of 256. All of these wait until they are done.

  /// `name` appears in the simulator's messages.
  virtual llvm::Expected<uint64_t> allocate(llvm::StringRef name,
                                            uint64_t bytes) = 0;
  virtual llvm::Error release(uint64_t address) = 0;
  virtual llvm::Error upload(uint64_t address, const void *data,
                             uint64_t bytes) = 0;
  virtual llvm::Error download(void *data, uint64_t address,
                               uint64_t bytes) = 0;
  /// Fills memory with a byte that no kernel may rely on: in the simulator the
  /// bytes count as undefined until a kernel writes them.
  virtual llvm::Error poison(uint64_t address, uint8_t byte,
                             uint64_t bytes) = 0;
  /// Waits for a stream.
  virtual llvm::Error synchronize(void *stream = nullptr) = 0;
};

/// The PTX simulator. Kernels of any architecture it knows can be loaded.
std::unique_ptr<Device> createSimDevice(const sim::SimOptions &options);

/// GPU number `ordinal` through libcuda.so.1. Fails with ErrorCode::NoDevice
/// where there is no driver or no such GPU.
llvm::Expected<std::unique_ptr<Device>> createCudaDevice(int ordinal = 0);

} // namespace runtime
} // namespace flamia

#endif // FLAMIA_RUNTIME_DEVICE_H
