// SPDX-License-Identifier: MIT
// What a group refuses before it begins: models that differ, batches that lack rows, calls at the
// wrong time.
#include <algorithm>

#include "belfry/core/error.h"
#include "belfry/towers/group_internal.h"

namespace belfry {
namespace {

// Variables, then states, as constructed.
std::vector<std::string> parts_of(const Module& module) {
  std::vector<std::string> out;
  for (const Variable* v : module.variables())
    out.push_back("variable '" + v->name() + "' " + v->shape().text());
  for (const ModuleState* s : module.states())
    out.push_back("state '" + s->name() + "' " + s->shape().text() +
                  (s->second_name().empty() ? "" : " with '" + s->second_name() + "'"));
  return out;
}

// Towers average by place: without this a model whose parts lie in another order would be mixed up.
void require_alike(const std::vector<std::unique_ptr<Module>>& modules) {
  const std::vector<std::string> first = parts_of(*modules[0]);
  for (std::size_t t = 1; t < modules.size(); ++t) {
    const std::vector<std::string> here = parts_of(*modules[t]);
    for (std::size_t i = 0; i < std::max(first.size(), here.size()); ++i) {
      const auto part = [i](const std::vector<std::string>& parts) {
        return i < parts.size() ? parts[i] : "no more variables or states";
      };
      if (part(here) == part(first)) continue;
      throw ConfigError(ErrorText{.what = "the towers' models differ",
                                  .found = part(here) + " on tower " + std::to_string(t),
                                  .expected = "as on tower 0, " + part(first),
                                  .fix = "each tower's model is constructed apart: what decides "
                                         "its parts must be the same each time"});
    }
  }
}

}  // namespace

std::vector<std::unique_ptr<Module>> make_replicas(const TowerGroupBase::Factory& make,
                                                   int towers) {
  std::vector<std::unique_ptr<Module>> out;
  for (int t = 0; t < towers; ++t) {
    out.push_back(make ? make() : nullptr);
    if (out.back() == nullptr)
      throw ConfigError(ErrorText{.what = "the function that makes a tower's model",
                                  .found = make ? "one that returned null" : "an empty one",
                                  .expected = "one that returns a new model each time"});
  }
  require_alike(out);
  return out;
}

void warn_unmatched(const Optimizer& optimizer, const std::vector<std::string>& variables,
                    const std::string& model, const Log& log) {
  const auto known = [&](const std::string& key, const std::string& pattern) {
    if (std::none_of(variables.begin(), variables.end(),
                     [&](const std::string& name) { return glob_match(pattern, name); }))
      log.warn_once("unmatched:" + key + pattern, "optimizer.{}: '{}' matches no variable of {}",
                    key, pattern, model);
  };
  for (const std::string& pattern : optimizer.no_decay) known("no_decay", pattern);
  for (const std::string& pattern : optimizer.frozen) known("freeze", pattern);
  for (const auto& [pattern, factor] : optimizer.multipliers) known("multipliers", pattern);
}

void require_function(const LossFn& fn) {
  if (!fn)
    throw ConfigError(ErrorText{.what = "the step function",
                                .found = "an empty one",
                                .expected = "a function of model, batch and step that returns "
                                            "the loss"});
}

void require_rows(const Batch& batch, std::int64_t update) {
  if (batch.rows < 1)
    throw DataError(ErrorText{
        .what = "a batch without rows",
        .found = std::to_string(batch.rows) + " rows",
        .expected = "1 or more",
        .fix = batch.names().empty() ? "" : "set batch.rows to the number its fields have",
        .update = update});
  for (const std::string& name : batch.names()) {
    const Shape& shape = batch[name].shape();
    if (shape.rank() > 0 && shape[0] == batch.rows) continue;
    throw DataError(ErrorText{.what = "field '" + name + "' of a batch",
                              .found = "shape " + shape.text(),
                              .expected = "batch.rows = " + std::to_string(batch.rows) +
                                          " rows along the first axis, as in all fields",
                              .update = update});
  }
}

std::size_t TowerGroupBase::Impl::place_of(int tower) const {
  if (tower < 0 || static_cast<std::size_t>(tower) >= towers.size())
    throw ConfigError(ErrorText{.what = "tower of a group",
                                .found = std::to_string(tower),
                                .expected = "0 to " + std::to_string(towers.size() - 1)});
  return static_cast<std::size_t>(tower);
}

void TowerGroupBase::Impl::require_context() const {
  if (life.expired())
    throw DeviceError(ErrorText{.what = "the Context of this tower group is gone",
                                .found = "a group that is still used",
                                .fix = "let the Context live longer: declare it before the group"});
}

void TowerGroupBase::Impl::require_between(const char* call) const {
  require_context();
  if (at_work)
    throw ConfigError(ErrorText{.what = std::string(call) + " while the towers are at work",
                                .found = "a call in a step function, or by a second thread",
                                .expected = "one between two steps of the group",
                                .fix = "in a step function use the model that it is given"});
}

void TowerGroupBase::Impl::require_alive() const {
  require_context();
  if (dead)
    throw CommError(ErrorText{.what = "the tower group has failed earlier",
                              .fix = "destroy it, make a new one and load a checkpoint"});
}

}  // namespace belfry
