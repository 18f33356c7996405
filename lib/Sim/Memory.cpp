//===- Memory.cpp - Address spaces and access checks ----------------------===//

#include "ExecAsync.h"
#include "Hazard.h"
#include "Hex.h"
#include "Report.h"

#include "llvm/ADT/Twine.h"

#include <cstring>

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// DeviceMemory
//===----------------------------------------------------------------------===//

DeviceMemory::DeviceMemory() : nextAddress(bufferBase) {}
DeviceMemory::~DeviceMemory() = default;

void DeviceMemory::mapAt(StringRef name, uint64_t address, void *host,
                         uint64_t bytes, BufferAccess access) {
  Region region;
  region.name = name.str();
  region.address = address;
  region.bytes = bytes;
  region.host = static_cast<uint8_t *>(host);
  region.access = access;
  if (access == BufferAccess::Write && bytes) {
    region.written = std::make_unique<uint8_t[]>(bytes);
    std::memset(region.written.get(), 0, bytes);
  }
  regions[address] = std::move(region);
}

uint64_t DeviceMemory::map(StringRef name, void *host, uint64_t bytes,
                           BufferAccess access) {
  constexpr uint64_t guard = 1 << 20;
  uint64_t address = nextAddress;
  nextAddress = (address + bytes + guard + 511) & ~uint64_t(511);
  mapAt(name, address, host, bytes, access);
  return address;
}

void DeviceMemory::unmap(uint64_t address) { regions.erase(address); }

DeviceMemory::Region *DeviceMemory::nearestBelow(uint64_t address) {
  auto it = regions.upper_bound(address);
  if (it == regions.begin())
    return nullptr;
  return &std::prev(it)->second;
}

DeviceMemory::Region *DeviceMemory::find(uint64_t address) {
  Region *r = nearestBelow(address);
  return r && address - r->address < r->bytes ? r : nullptr;
}

std::string DeviceMemory::describe(uint64_t address) {
  Region *r = nearestBelow(address);
  if (!r)
    return "global address " + hex(address) + " lies below every buffer";
  if (r->host == nullptr && r->bytes)
    return "global address " + hex(address);
  return "global address " + hex(address) + " lies " +
         std::to_string(address - r->address - r->bytes) +
         " bytes behind the end of '" + r->name + "' (" + hex(r->address) +
         ", " + std::to_string(r->bytes) + " bytes)";
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

Flow Exec::fail(const Instr &i, int lane, const Twine &message,
                StringRef checkName) {
  Diagnostic d;
  d.file = launch.program->fileName;
  d.line = i.line;
  d.message = message.str();
  d.check = checkName.str();
  d.cta = cta.id;
  d.hasCta = true;
  d.warp = int(warp.index);
  d.lane = lane;
  d.source = sourceOf(launch, i);
  cluster.errors.push_back(std::move(d));
  return Flow::Fail;
}

static std::pair<Check, const char *> checkOf(IssueKind kind) {
  switch (kind) {
  case IssueKind::IllegalInstruction:
    return {Check::Descriptor, "descriptor"};
  case IssueKind::Misaligned:
    return {Check::Alignment, "alignment"};
  case IssueKind::OutOfBounds:
    return {Check::Bounds, "bounds"};
  case IssueKind::LaneAccess:
    return {Check::TmemLanes, "tmem-lanes"};
  case IssueKind::Unallocated:
  case IssueKind::Allocation:
    return {Check::TmemAlloc, "tmem-alloc"};
  case IssueKind::Uninitialised:
  case IssueKind::ReplicaMismatch:
    return {Check::Uninit, "uninit"};
  }
  return {Check::Descriptor, "descriptor"};
}

bool Exec::report(const Instr &i, int lane, const IssueList &issues,
                  bool done) {
  for (const Issue &issue : issues) {
    auto [c, name] = checkOf(issue.kind);
    // An operation that could not be carried out is an error in any case.
    if (!check(c) && done)
      continue;
    fail(i, lane, issue.message, name);
    return true;
  }
  if (done)
    return false;
  fail(i, lane, "operation could not be carried out");
  return true;
}

//===----------------------------------------------------------------------===//
// Access
//===----------------------------------------------------------------------===//

Cta *Exec::sharedTarget(const Instr &i, uint64_t address, uint32_t &offset,
                        int lane) {
  if (address >= sharedWindow && address - sharedWindow < windowSize)
    address -= sharedWindow;
  if (address >= windowSize) {
    fail(i, lane, hex(address) + " is no shared address", "bounds");
    return nullptr;
  }
  uint32_t rank = uint32_t(address >> 24);
  offset = uint32_t(address & 0xFFFFFF);
  if (rank >= cluster.ctas.size()) {
    fail(i, lane,
         "shared address " + hex(address) + " names CTA " + Twine(rank) +
             " of a cluster of " + Twine(cluster.ctas.size()),
         "bounds");
    return nullptr;
  }
  return cluster.ctas[rank].get();
}

bool multicastMask(Exec &x, const Instr &i, Src from, int lane,
                   uint32_t &mask) {
  mask = x.lanes<uint16_t>(from)[lane];
  size_t ctas = x.cluster.ctas.size();
  if (mask && !(mask >> ctas))
    return true;
  x.fail(i, lane,
         "multicast mask " + hex(mask) +
             " expected to name CTAs of a cluster of " + Twine(ctas),
         "bounds");
  return false;
}

/// Generic addresses name their space by the window they lie in.
static uint8_t genericSpace(uint64_t &address) {
  if (address >= sharedWindow && address < sharedWindow + windowSize) {
    address -= sharedWindow;
    return spaceSharedCluster;
  }
  if (address >= localWindow && address < localWindow + windowSize) {
    address -= localWindow;
    return spaceLocal;
  }
  if (address >= paramWindow && address < paramWindow + windowSize) {
    address -= paramWindow;
    return spaceParam;
  }
  return spaceGlobal;
}

uint8_t *Exec::resolve(const Instr &i, uint8_t space, uint64_t address,
                       unsigned size, Access access, int lane) {
  if (address & (size - 1) && check(Check::Alignment)) {
    fail(i, lane,
         "address " + hex(address) + " is not aligned to the access of " +
             Twine(size) + " bytes",
         "alignment");
    return nullptr;
  }
  if (space == spaceGeneric)
    space = genericSpace(address);
  switch (space) {
  case spaceShared:
  case spaceSharedCluster: {
    uint32_t offset;
    Cta *target = sharedTarget(i, address, offset, lane);
    if (!target)
      return nullptr;
    if (space == spaceShared && target != &cta) {
      fail(i, lane,
           "shared::cta address " + hex(address) + " names another CTA",
           "bounds");
      return nullptr;
    }
    uint64_t at = uint64_t(offset) - sharedBase;
    if (offset < sharedBase || at + size > target->shared.size()) {
      fail(i, lane,
           "access of " + Twine(size) + " bytes at shared address " +
               hex(offset) + " is outside shared memory [" + hex(sharedBase) +
               ", " + hex(sharedBase + target->shared.size()) + ")",
           "bounds");
      return nullptr;
    }
    return target->shared.data() + at;
  }
  case spaceLocal: {
    if (address + size > kernel.localBytes || address + size < address) {
      fail(i, lane,
           "access of " + Twine(size) + " bytes at local address " +
               hex(address) + " is outside the " + Twine(kernel.localBytes) +
               " bytes of local memory",
           "bounds");
      return nullptr;
    }
    return warp.local.data() + size_t(lane) * kernel.localBytes + address;
  }
  case spaceParam: {
    if (access != Load) {
      fail(i, lane, "write to parameter memory", "readonly");
      return nullptr;
    }
    if (address + size > launch.params.size() || address + size < address) {
      fail(i, lane,
           "access of " + Twine(size) + " bytes at parameter offset " +
               Twine(address) + " is outside the " +
               Twine(launch.params.size()) + " bytes of parameters",
           "bounds");
      return nullptr;
    }
    return const_cast<uint8_t *>(launch.params.data()) + address;
  }
  default:
    break;
  }
  DeviceMemory::Region *r = cluster.lastRegion;
  if (!r || address - r->address >= r->bytes)
    r = launch.memory->find(address);
  if (!r || address - r->address + size > r->bytes) {
    fail(i, lane,
         "access of " + Twine(size) + " bytes: " +
             (r ? "global address " + hex(address) + " passes the end of '" +
                      r->name + "' (" + hex(r->address) + ", " +
                      std::to_string(r->bytes) + " bytes)"
                : launch.memory->describe(address)),
         "bounds");
    return nullptr;
  }
  cluster.lastRegion = r;
  if (access != Load && r->access == BufferAccess::Read &&
      check(Check::Readonly)) {
    fail(i, lane,
         "write to global address " + hex(address) + " of '" + r->name +
             "', which the kernel may only read",
         "readonly");
    return nullptr;
  }
  return r->host + (address - r->address);
}

bool Exec::requireDefined(const Instr &i, uint8_t space, uint64_t address,
                          unsigned size, int lane) {
  if (space == spaceGeneric)
    space = genericSpace(address);
  switch (space) {
  case spaceShared:
  case spaceSharedCluster: {
    Cta &target = *cluster.ctas[address >> 24 & 0xFF];
    const uint8_t *s =
        target.shadow.data() + (uint32_t(address & 0xFFFFFF) - sharedBase);
    for (unsigned k = 0; k < size; ++k) {
      if (s[k] & shadowMbarrier && check(Check::Barrier)) {
        fail(i, lane,
             "ordinary access to the mbarrier at shared address " +
                 hex((address + k) & 0xFFFFF8),
             "barrier");
        return false;
      }
      if (!s[k] && check(Check::Uninit)) {
        fail(i, lane,
             "read of undefined shared memory at address " + hex(address + k),
             "uninit");
        return false;
      }
    }
    return !cluster.hazards ||
           cluster.hazards->shared(*this, i, target, address & 0xFFFFFF, size,
                                   false, lane);
  }
  case spaceLocal: {
    if (!check(Check::Uninit))
      return true;
    const uint8_t *s =
        warp.localDefined.data() + size_t(lane) * kernel.localBytes + address;
    // Compilers copy structures with their padding: one defined byte will do,
    // as for values packed from pieces.
    if (!std::memchr(s, 1, size)) {
      fail(i, lane, "read of undefined local memory at address " + hex(address),
           "uninit");
      return false;
    }
    return true;
  }
  case spaceParam:
    return true;
  default:
    break;
  }
  DeviceMemory::Region *r = cluster.lastRegion;
  const uint8_t *s = r->written && check(Check::Uninit)
                         ? r->written.get() + (address - r->address)
                         : nullptr;
  if (const void *hole = s ? std::memchr(s, 0, size) : nullptr) {
    fail(i, lane,
         "read of global address " +
             hex(address + (static_cast<const uint8_t *>(hole) - s)) +
             " of output '" + r->name + "', which nothing has written",
         "uninit");
    return false;
  }
  return r->access == BufferAccess::Read || !cluster.hazards ||
         cluster.hazards->global(*this, i, *r, address, size, false, lane);
}

bool Exec::markDefined(const Instr &i, uint8_t space, uint64_t address,
                       unsigned size, int lane) {
  if (space == spaceGeneric)
    space = genericSpace(address);
  switch (space) {
  case spaceShared:
  case spaceSharedCluster: {
    Cta &target = *cluster.ctas[address >> 24 & 0xFF];
    uint8_t *s =
        target.shadow.data() + (uint32_t(address & 0xFFFFFF) - sharedBase);
    for (unsigned k = 0; k < size; ++k) {
      if (s[k] & shadowMbarrier && check(Check::Barrier)) {
        fail(i, lane,
             "ordinary access to the mbarrier at shared address " +
                 hex((address + k) & 0xFFFFF8),
             "barrier");
        return false;
      }
      s[k] |= shadowDefined;
    }
    return !cluster.hazards ||
           cluster.hazards->shared(*this, i, target, address & 0xFFFFFF, size,
                                   true, lane);
  }
  case spaceLocal:
    std::memset(warp.localDefined.data() + size_t(lane) * kernel.localBytes +
                    address,
                1, size);
    return true;
  case spaceParam:
    return true;
  default:
    break;
  }
  DeviceMemory::Region *r = cluster.lastRegion;
  if (r->written)
    std::memset(r->written.get() + (address - r->address), 1, size);
  return r->access == BufferAccess::Read || !cluster.hazards ||
         cluster.hazards->global(*this, i, *r, address, size, true, lane);
}

} // namespace sim
} // namespace flamia
