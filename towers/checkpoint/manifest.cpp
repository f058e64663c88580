// SPDX-License-Identifier: MIT
#include "belfry/towers/checkpoint/manifest.h"

#include <dnnl_version.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "belfry/core/error.h"
#include "belfry/version.h"

namespace belfry {
namespace {

using Json = nlohmann::json;

constexpr const char* kKind = "belfry checkpoint";

// JSON has no NaN or infinity: they are written as strings.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double to_number(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const std::string text = json.get<std::string>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

Json clocks_json(const GroupClocks& c) {
  Json steps = Json::array();
  for (const auto& [variable, count] : c.steps)
    steps.push_back({{"variable", variable}, {"updates", count}});
  Json statistics = Json::array();
  for (const double v : c.statistics) statistics.push_back(number(v));
  return {{"update", c.update},
          {"attempts", c.attempts},
          {"rows", c.rows},
          {"steps", steps},
          {"statistics", statistics}};
}

GroupClocks clocks_from(const Json& json) {
  GroupClocks out;
  out.update = json.at("update").get<std::int64_t>();
  out.attempts = json.at("attempts").get<std::int64_t>();
  out.rows = json.at("rows").get<std::int64_t>();
  for (const Json& s : json.at("steps"))
    out.steps.emplace_back(s.at("variable").get<std::string>(),
                           s.at("updates").get<std::int64_t>());
  for (const Json& v : json.at("statistics")) out.statistics.push_back(to_number(v));
  return out;
}

Json run_json(const RunState& r) {
  Json hooks = Json::object();
  for (const auto& [name, state] : r.hooks) {
    Json values = Json::object();
    for (const auto& [key, value] : state) values[key] = number(value);
    hooks[name] = values;
  }
  return {{"position_rows", r.position}, {"attempts", r.attempts}, {"rows", r.rows},
          {"batch_rows", r.batch},       {"config", r.config},     {"hooks", hooks}};
}

RunState run_from(const Json& json) {
  RunState out;
  out.position = json.at("position_rows").get<std::int64_t>();
  out.attempts = json.at("attempts").get<std::int64_t>();
  out.rows = json.at("rows").get<std::int64_t>();
  out.batch = json.at("batch_rows").get<std::int64_t>();
  out.config = json.at("config").get<std::string>();
  for (const auto& [name, values] : json.at("hooks").items())
    for (const auto& [key, value] : values.items()) out.hooks[name][key] = to_number(value);
  return out;
}

[[noreturn]] void not_ours(const std::string& path, const std::string& found) {
  throw CheckpointError(ErrorText{.what = "not a checkpoint of this program",
                                  .found = found,
                                  .expected = std::string("\"kind\": \"") + kKind + "\"",
                                  .file = path});
}

void check_format(const Json& json, const std::string& path) {
  const std::int64_t format = json.at("format").get<std::int64_t>();
  if (format == kCheckpointFormat) return;
  const bool newer = format > kCheckpointFormat;
  throw CheckpointError(
      ErrorText{.what = newer ? "the checkpoint was written by a newer version"
                              : "the checkpoint's format is not known",
                .found = "format " + std::to_string(format),
                .expected = newer ? "at most " + std::to_string(kCheckpointFormat)
                                  : std::to_string(kCheckpointFormat),
                .fix = newer ? "upgrade Belfry, at present " + std::string(kVersion) : "",
                .file = path});
}

}  // namespace

std::string Manifest::text() const {
  Json list = Json::array();
  for (const FileRecord& f : files)
    list.push_back({{"name", f.name}, {"bytes", f.size}, {"xxh3", f.checksum}});
  const Json json = {{"kind", kKind},
                     {"format", format},
                     {"versions", versions},
                     {"optimizer", rule},
                     {"seed", seed},
                     {"towers", towers},
                     {"threads_per_tower", threads_per_tower},
                     {"clocks", clocks_json(clocks)},
                     {"run", run_json(run)},
                     {"files", list}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Manifest Manifest::parse(const std::string& text, const std::string& path) {
  Manifest out;
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) not_ours(path, "a file that is not a JSON object");
  try {
    if (const auto kind = json.find("kind"); kind == json.end() || *kind != kKind)
      not_ours(path, kind == json.end() ? "no \"kind\"" : kind->dump());
    check_format(json, path);
    out.versions = json.at("versions").get<std::map<std::string, std::string>>();
    out.rule = json.at("optimizer").get<std::string>();
    out.seed = json.at("seed").get<std::uint64_t>();
    out.towers = json.at("towers").get<std::int64_t>();
    out.threads_per_tower = json.at("threads_per_tower").get<std::int64_t>();
    out.clocks = clocks_from(json.at("clocks"));
    out.run = run_from(json.at("run"));
    for (const Json& f : json.at("files"))
      out.files.push_back({f.at("name").get<std::string>(), f.at("bytes").get<std::uint64_t>(),
                           f.at("xxh3").get<std::string>()});
  } catch (const Json::exception& e) {
    throw CheckpointError(
        ErrorText{.what = "the manifest is damaged", .found = e.what(), .file = path});
  }
  return out;
}

std::map<std::string, std::string> library_versions() {
  std::map<std::string, std::string> out{{"belfry", kVersion}, {"compiler", __VERSION__}};
  out["onednn"] = std::to_string(DNNL_VERSION_MAJOR) + "." + std::to_string(DNNL_VERSION_MINOR) +
                  "." + std::to_string(DNNL_VERSION_PATCH);
#if defined(__x86_64__)
  out["instruction_set"] = __builtin_cpu_supports("avx512f") ? "avx512"
                           : __builtin_cpu_supports("avx2")  ? "avx2"
                                                             : "x86-64";
#endif
  return out;
}

}  // namespace belfry
