// SPDX-License-Identifier: MIT
#include "belfry/core/error.h"
#include "belfry/towers/outcome_internal.h"

namespace belfry {
namespace {

bool f32_scalar(const Tensor& t) { return t.defined() && t.size() == 1 && t.dtype() == DType::f32; }

std::string found_text(const Tensor& t) {
  return t.defined() ? t.shape().text() + " " + std::string(name_of(t.dtype())) : "nothing";
}

}  // namespace

void require_loss(const Loss& loss) {
  const bool mean = f32_scalar(loss.mean);
  if (mean && f32_scalar(loss.weight)) return;
  throw GradientError(ErrorText{
      .what = std::string("the step function's loss, its ") + (mean ? "weight" : "mean"),
      .found = found_text(mean ? loss.weight : loss.mean),
      .expected = "an f32 scalar: a Loss is a mean and its weight, as cross_entropy and mse "
                  "return them"});
}

void require_metric(const std::string& name, const Metric& metric) {
  if (f32_scalar(metric.sum) && f32_scalar(metric.weight)) return;
  throw GradientError(
      ErrorText{.what = "step.report(\"" + name + "\")",
                .found = "sum " + found_text(metric.sum) + ", weight " + found_text(metric.weight),
                .expected = "f32 scalars: a sum and its weight"});
}

Outcome::Outcome(Device& device)
    : device_(device),
      memory_(Tensor::zeros(Shape{sizeof(DeviceOutcome)}, DType::u8, device)),
      host_(device, sizeof(DeviceOutcome)),
      sent_(device.event()) {}

void Outcome::start() {
  metrics_.clear();
  if (fault() != nullptr) device_.main().fill(fault(), 0, sizeof(LabelFault));
}

// Takes its memory at once: when it is sent, collectives are under way.
void Outcome::add_metric(std::pair<std::string, Metric> metric) {
  metrics_.push_back(std::move(metric));
  const std::size_t bytes = 2 * sizeof(float) * metrics_.size();
  if (host_metrics_.bytes() < bytes) host_metrics_ = Pinned(device_, bytes);
}

void Outcome::send() {
  Stream& main = device_.main();
  for (std::size_t k = 0; k < metrics_.size(); ++k) {
    float* const to = host_metrics_.at<float>() + 2 * k;
    main.copy(to, metrics_[k].second.sum.raw(), sizeof(float));
    main.copy(to + 1, metrics_[k].second.weight.raw(), sizeof(float));
  }
  main.copy(host_.at<void>(), memory_.raw(), sizeof(DeviceOutcome));
  main.record(*sent_);
}

DeviceOutcome Outcome::read(std::vector<MetricValue>& metrics) {
  Stream& main = device_.main();
  if (device_.host_memory())
    main.synchronize();  // errors of queued operations come out here
  else
    sent_->wait_host();  // what follows, the update and the parameters' way to all towers, goes on
  main.host_access(Touches()
                       .reads(host_.at<void>(), sizeof(DeviceOutcome))
                       .reads(host_metrics_.at<void>(), 2 * sizeof(float) * metrics_.size()));
  const float* values = host_metrics_.at<float>();
  for (const auto& [name, metric] : metrics_) {
    metrics.push_back({name, static_cast<double>(values[0]), static_cast<double>(values[1])});
    values += 2;
  }
  metrics_.clear();
  return *host_.at<DeviceOutcome>();
}

void Outcome::require_labels() {
  if (fault() == nullptr) return;
  LabelFault found;
  device_.main().fetch(&found, fault(), sizeof found);
  if (found.found != 0) throw_label(found.row, found.label, found.classes);
}

}  // namespace belfry
