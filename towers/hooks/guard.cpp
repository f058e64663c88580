// SPDX-License-Identifier: MIT
#include "belfry/core/log.h"
#include "belfry/data/byte_file.h"
#include "belfry/towers/trainer.h"

namespace belfry {
namespace {

// What to do about updates refused for non-finite numbers: end the run (the default), or go on
// without them up to a number.
class Guard : public Hook {
 public:
  std::string name() const override { return "guard"; }
  void declare(Schema& schema) override {
    schema.key(
        "skip", allowed_,
        {.min = 0, .max = 1e9, .unit = "updates", .help = "refused updates that a run may skip"});
  }
  bool on_refused(TrainRun& run, const NumericError& error) override {
    if (skipped_ >= allowed_) return false;
    ++skipped_;
    run.log().warn("{}: update refused, skipped {} of {}", error.what(), skipped_, allowed_);
    return true;
  }
  void on_end(TrainRun& run) override {
    if (skipped_ > 0)
      run.log().warn("{} refused for non-finite numbers and skipped",
                     count_text(skipped_, "update"));
  }
  HookState state() const override { return {{"skipped", static_cast<double>(skipped_)}}; }
  void restore(const HookState& saved) override {
    if (const auto n = saved.find("skipped"); n != saved.end())
      skipped_ = static_cast<std::int64_t>(n->second);
  }

 private:
  std::int64_t allowed_ = 0;
  std::int64_t skipped_ = 0;
};

}  // namespace

void register_hook_guard(Registry& registry) {
  registry.table<HookEntry>().add(
      "guard", {[] { return std::make_shared<Guard>(); }, "skips a number of refused updates"});
}

}  // namespace belfry
