// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "belfry/autodiff/loss.h"
#include "belfry/device/pinned.h"
#include "belfry/towers/engine.kernel.h"

namespace belfry {

// Throw GradientError unless what a step function gives back, or reports, are f32 scalars.
void require_loss(const Loss& loss);
void require_metric(const std::string& name, const Metric& metric);

struct MetricValue {
  std::string name;
  double sum = 0, weight = 0;
};

// What the host learns of an update: written on the device, sent to pinned memory right behind the
// verdict, read after the host's only wait for its device in an update. One thread.
class Outcome {
 public:
  explicit Outcome(Device& device);
  Verdict* verdict() const { return &on_device()->verdict; }
  Totals* totals() const { return &on_device()->totals; }
  // Where ops note invalid labels; null where they find them themselves.
  LabelFault* fault() const { return device_.host_memory() ? nullptr : &on_device()->fault; }
  void start();  // no fault, no metrics
  void add_metric(std::pair<std::string, Metric> metric);
  const std::vector<std::pair<std::string, Metric>>& metrics() const { return metrics_; }
  void send();
  DeviceOutcome read(std::vector<MetricValue>& metrics);  // waits
  void require_labels();  // throws DataError for an invalid one since start(); waits

 private:
  DeviceOutcome* on_device() const { return static_cast<DeviceOutcome*>(memory_.raw()); }
  Device& device_;
  Tensor memory_;
  Pinned host_, host_metrics_;
  std::unique_ptr<Event> sent_;
  std::vector<std::pair<std::string, Metric>> metrics_;
};

}  // namespace belfry
