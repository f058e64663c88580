// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "belfry/core/log.h"
#include "belfry/data/loader.h"
#include "belfry/towers/checkpoint/manifest.h"

namespace belfry {

// Where a run goes on, in rows over all epochs, at most their end: with fewer epochs than were
// trained nothing is left to do. A position saved with another batch size is moved back to where a
// batch starts: no row is lost. With another number of rows the epoch under way begins anew: its
// order is gone. Warns of both.
std::int64_t resume_position(const Loader& loader, const RunState& saved, const Log& log);

// Updates that hand out the rows before `position`.
std::int64_t updates_before(const Loader& loader, std::int64_t position);

}  // namespace belfry
