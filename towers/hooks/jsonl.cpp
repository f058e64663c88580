// SPDX-License-Identifier: MIT
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "belfry/core/atomic_file.h"
#include "belfry/towers/trainer.h"

namespace belfry {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN: null stands for what is not finite.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// One JSON object a line and update in <output>/<log.jsonl>, and one a validation. Units are in the
// names. A resumed run drops what a run that died had written after its last checkpoint.
class JsonLines : public Hook {
 public:
  std::string name() const override { return "jsonl"; }
  std::string table() const override { return "log"; }
  int order() const override { return -5; }
  void declare(Schema& schema) override {
    schema.key("jsonl", path_, {.help = "file of metrics in the output folder; empty: none"});
    schema.rule([this] { return path_fault(path_); });
  }
  void on_start(TrainRun& run) override {
    if (path_.empty() || run.options.output.empty()) return;
    namespace fs = std::filesystem;
    const fs::path path = fs::path(run.options.output) / path_;
    make_directories(path.parent_path().string(), *run.options.files);
    std::error_code status;
    if (fs::exists(path, status)) refuse_other_file(path.string());
    const bool known = run.resumed && fs::exists(path, status);
    file_.emplace(path.string() + (known ? ".tmp" : ""), *run.options.files);
    if (!known) return;
    file_->write(lines_up_to(path.string(), run.first_update));
    file_->move_to(path.string());  // only now: a crash before it loses nothing
  }
  void on_update(TrainRun& run, const Report& r) override {
    if (!file_) return;
    Json json = {{"update", r.update},
                 {"epoch", r.epoch + 1},
                 {"rows", r.rows},
                 {"loss", number(r.loss())},
                 {"learning_rate", number(r.lr)},
                 {"gradient_norm", number(r.norm)},
                 {"clip_factor", number(r.clip)},
                 {"seconds", number(r.seconds)},
                 {"data_wait_seconds", number(r.data_wait)},
                 {"forward_backward_seconds", number(r.forward_backward)},
                 {"exposed_seconds", number(r.exposed)},
                 {"apply_seconds", number(r.update_seconds)},
                 {"samples_per_second",
                  number(r.seconds > 0 ? static_cast<double>(r.rows) / r.seconds : 0)}};
    for (const auto& [name, value] : r.metrics) json[name] = number(value);
    if (!std::isnan(run.group.noise_scale())) {
      json["noise_scale_rows"] = number(run.group.noise_scale());
      json["snr"] = number(run.group.snr());
    }
    write(json);
  }
  void on_validation(TrainRun& run, const EvalReport& r) override {
    if (!file_) return;
    Json json = {{"validation_update", run.result.update},
                 {"rows", r.rows},
                 {"loss", number(r.loss)},
                 {"seconds", number(r.seconds)}};
    for (const auto& [name, value] : r.metrics) json[name] = number(value);
    write(json);
  }
  void on_end(TrainRun&) override {
    if (file_) file_->finish();
    file_.reset();
  }

 private:
  void write(const Json& json) {
    file_->write(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  // It stays in the output folder, and apart from checkpoints.
  static std::string path_fault(const std::string& text) {
    if (text.empty()) return "";
    const std::filesystem::path path = std::filesystem::path(text).lexically_normal();
    const std::string top = path.begin()->string();
    const std::string fault = "jsonl: found \"" + text + "\", expected a file ";
    if (path.is_absolute() || top == ".." || !path.has_filename() || top == ".")
      return fault + "in the output folder, such as \"metrics.jsonl\"";
    if (top == "best" || top.starts_with("step_"))
      return fault + "outside the folders of checkpoints";
    return "";
  }

  // A file of somebody else's is not overwritten: ours is empty or begins with an update's object,
  // of which a power cut may have left a part, or zeros.
  static void refuse_other_file(const std::string& path) {
    const InputFile file(path);
    std::string start(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), 65536)), ' ');
    file.read_at(0, std::as_writable_bytes(std::span(start)));
    const Json first = Json::parse(start.substr(0, start.find('\n')), nullptr, false);
    std::string left = start;
    std::erase(left, '\0');
    const bool cut = start.find('\n') == start.npos || left.size() < start.size();
    if (left.empty() || left == "{" || (cut && left.starts_with("{\"")) ||
        (first.is_object() && (first.contains("update") || first.contains("validation_update"))))
      return;
    throw ConfigError(ErrorText{.what = "log.jsonl names a file that holds something else",
                                .found = path,
                                .expected = "a new file, or one of earlier metrics",
                                .fix = "give log.jsonl another name"});
  }

  static std::string lines_up_to(const std::string& path, std::int64_t update) {
    const std::vector<std::byte> bytes = read_file(path);
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::string kept;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      if (end == text.npos) break;  // cut off while it was written
      const std::string_view line = text.substr(0, end + 1);
      text.remove_prefix(end + 1);
      const Json json = Json::parse(line, nullptr, false);
      if (!json.is_object()) continue;
      const auto number_of =
          json.contains("update") ? json.find("update") : json.find("validation_update");
      if (number_of != json.end() && number_of->is_number_integer() &&
          number_of->get<std::int64_t>() <= update)
        kept += line;
    }
    return kept;
  }

  std::string path_ = "metrics.jsonl";
  std::optional<FileWriter> file_;
};

}  // namespace

void register_hook_jsonl(Registry& registry) {
  registry.table<HookEntry>().add("jsonl", {[] { return std::make_shared<JsonLines>(); },
                                            "metrics of every update as JSON lines"});
}

}  // namespace belfry
