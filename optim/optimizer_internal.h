// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "belfry/optim/optimizer.h"

namespace belfry {

// An optimizer around `rule`, whose hyper-parameters were set by code: throws ConfigError for one
// out of range. The rule's default weight decay applies.
Optimizer make_optimizer(std::shared_ptr<Rule> rule, const LearningRate& lr);

// The same for a schedule.
LearningRate make_rate(double base, std::shared_ptr<Schedule> schedule);

// The keys of [optimizer] that are numbers or lists, bound to `o`; shared by config files and
// Optimizer::validate(), so that both have the same limits.
void declare_values(Schema& schema, Optimizer& o);

// The keys of [schedule] that every schedule has.
void declare_warmup(Schema& schema, LearningRate& lr);

// "" when `period` is given and above zero, else what is wrong with `key`. A length has no default:
// a guessed one would spoil the run without a word.
std::string positive_period_fault(const std::string& key, const std::string& period);

// "" unless the length `over` of a fall ends before the warm-up in front of it does, as far as the
// clock can tell: the base rate would never be reached.
std::string fall_fault(const std::string& over, const Period& warmup, const Clock& clock);

// Whether the first length ends before the other; false where the clock cannot tell.
bool shorter(const Period& length, const Period& other, const Clock& clock);

}  // namespace belfry
