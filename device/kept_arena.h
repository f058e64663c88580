// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "belfry/device/device.h"

namespace belfry {

// An arena over another one that keeps what it has taken: for work that is recorded and replayed,
// whose addresses nothing else may get in between. Gives its blocks back at its end, which tensors
// in it put off. Thread-safe; fails as the other one does. In stats(), system_requests counts its
// blocks and reserved_bytes is what they have together.
std::shared_ptr<Arena> make_kept_arena(Arena& from);

// While it lives, what this thread takes on `device` for tensors and library calls comes from
// `arena`. May be nested; the one before comes back at its end.
class UseArena {
 public:
  UseArena(const Device& device, std::shared_ptr<Arena> arena);
  ~UseArena();
  UseArena(const UseArena&) = delete;
  UseArena& operator=(const UseArena&) = delete;

 private:
  const Device* device_before_;
  std::shared_ptr<Arena> before_;
};

// Null where nothing is in use on this thread: then it is the device's own.
std::shared_ptr<Arena> arena_in_use(const Device& device);

}  // namespace belfry
