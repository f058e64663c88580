// SPDX-License-Identifier: MIT
#include "belfry/towers/checkpoint/manifest.h"

#include <dnnl_version.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "belfry/core/checksum.h"
#include "belfry/core/error.h"
#include "belfry/device/host_kernels.h"
#include "belfry/version.h"

namespace belfry {
namespace {

using Json = nlohmann::json;

constexpr const char* kKind = "belfry checkpoint";
constexpr int kDeepest = 8;  // text() writes 4; what walks a value takes stack for each level

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

[[noreturn]] void damaged(const std::string& found, const std::string& path) {
  throw CheckpointError(ErrorText{.what = "the manifest is damaged", .found = found, .file = path});
}

// A field that counts something: a whole number from 0.
std::int64_t count(const Json& json, const char* key, const std::string& path) {
  const Json& value = json.at(key);
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{kLargest})
    damaged(std::string("\"") + key +
                "\": " + (value.is_number() ? value.dump() : value.type_name()) +
                ", expected a whole number from 0",
            path);
  return value.get<std::int64_t>();
}

GroupClocks clocks_from(const Json& json, const std::string& path) {
  GroupClocks out;
  out.update = count(json, "update", path);
  out.attempts = count(json, "attempts", path);
  out.rows = count(json, "rows", path);
  for (const Json& s : json.at("steps"))
    out.steps.emplace_back(s.at("variable").get<std::string>(), count(s, "updates", path));
  for (const Json& v : json.at("statistics")) out.statistics.push_back(to_number(v));
  return out;
}

Json data_json(const DataRecord& d) {
  Json fields = Json::array();
  for (const Field& f : d.fields)
    fields.push_back(
        {{"name", f.name}, {"shape", f.shape.extents()}, {"type", std::string(name_of(f.dtype))}});
  Json figures = Json::object();
  for (const auto& [name, values] : d.figures) {
    Json list = Json::array();
    for (const double v : values) list.push_back(number(v));
    figures[name] = list;
  }
  return {{"rows", d.rows},
          {"classes", d.classes},
          {"fields", fields},
          {"class_names", d.class_names},
          {"label_unit", d.label_unit},
          {"figures", figures},
          {"row_keys", d.row_keys}};
}

Field field_from(const Json& json, const std::string& path) {
  Field out{.name = json.at("name").get<std::string>()};
  const auto type = json.at("type").get<std::string>();
  const DType known[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8};
  const auto* const found =
      std::find_if(std::begin(known), std::end(known), [&](DType t) { return name_of(t) == type; });
  if (found == std::end(known)) damaged("type '" + type + "' of data", path);
  out.dtype = *found;
  const auto extents = json.at("shape").get<std::vector<std::int64_t>>();
  const auto small = [](std::int64_t e) { return e >= 1 && e <= (std::int64_t{1} << 31); };
  double size = 1;
  for (const std::int64_t e : extents) size *= static_cast<double>(e);
  if (extents.size() >= static_cast<std::size_t>(Shape::kMaxRank) || size > 0x1p40 ||
      !std::all_of(extents.begin(), extents.end(), small))
    damaged("shape " + json.at("shape").dump() + " of data", path);
  out.shape = Shape(extents);
  return out;
}

DataRecord data_from(const Json& json, const std::string& path) {
  DataRecord out;
  out.rows = count(json, "rows", path);
  out.classes = count(json, "classes", path);
  for (const Json& f : json.at("fields")) out.fields.push_back(field_from(f, path));
  out.class_names = json.at("class_names").get<std::vector<std::string>>();
  out.label_unit = json.at("label_unit").get<std::string>();
  for (const auto& [name, values] : json.at("figures").items())
    for (const Json& v : values) out.figures[name].push_back(to_number(v));
  if (json.contains("row_keys")) out.row_keys = json.at("row_keys").get<RowKeys>();
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
          {"batch_rows", r.batch},       {"config", r.config},     {"hooks", hooks},
          {"data", data_json(r.data)}};
}

RunState run_from(const Json& json, const std::string& path) {
  RunState out;
  out.position = count(json, "position_rows", path);
  out.attempts = count(json, "attempts", path);
  out.rows = count(json, "rows", path);
  out.batch = count(json, "batch_rows", path);
  out.config = json.at("config").get<std::string>();
  if (json.contains("data")) out.data = data_from(json.at("data"), path);
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
  const std::int64_t format = count(json, "format", path);
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

constexpr const char* kChecksum = "manifest_xxh3";  // of the rest of the manifest

std::string rest_checksum(Json json) {
  json.erase(kChecksum);
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  return checksum_hex(std::as_bytes(std::span(text)));
}

void check_checksum(const Json& json, const std::string& path) {
  const std::string found = json.at(kChecksum).get<std::string>(), expected = rest_checksum(json);
  if (found != expected)
    throw CheckpointError(ErrorText{.what = "the manifest is damaged",
                                    .found = "checksum " + found,
                                    .expected = expected + " for what it says",
                                    .file = path});
}

Json parse_object(const std::string& text, const std::string& path) {
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) not_ours(path, "values nested deeper than " + std::to_string(kDeepest));
    return true;
  };
  Json json = Json::parse(text, shallow, false);
  if (json.is_discarded() || !json.is_object()) not_ours(path, "a file that is not a JSON object");
  return json;
}

}  // namespace

std::string Manifest::sealed(const std::string& json_text) {
  Json json = parse_object(json_text, "");
  json[kChecksum] = rest_checksum(json);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

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
                     {"virtual_shards", virtual_shards},
                     {"clocks", clocks_json(clocks)},
                     {"run", run_json(run)},
                     {"files", list}};
  return sealed(json.dump(1, ' ', false, Json::error_handler_t::replace));
}

Manifest Manifest::parse(const std::string& text, const std::string& path) {
  Manifest out;
  const Json json = parse_object(text, path);
  try {
    if (const auto kind = json.find("kind"); kind == json.end() || *kind != kKind)
      not_ours(path, kind == json.end()  ? "no \"kind\""
                     : kind->is_string() ? kind->dump()
                                         : std::string("\"kind\" is of type ") + kind->type_name());
    check_format(json, path);
    check_checksum(json, path);
    if (sealed(text) != text)  // white space, or a key twice: no checksum shows these
      damaged("other text than this program writes", path);
    out.versions = json.at("versions").get<std::map<std::string, std::string>>();
    out.rule = json.at("optimizer").get<std::string>();
    out.seed = json.at("seed").get<std::uint64_t>();
    out.towers = count(json, "towers", path);
    out.threads_per_tower = count(json, "threads_per_tower", path);
    if (json.contains("virtual_shards")) out.virtual_shards = count(json, "virtual_shards", path);
    out.clocks = clocks_from(json.at("clocks"), path);
    out.run = run_from(json.at("run"), path);
    for (const Json& f : json.at("files"))
      out.files.push_back({f.at("name").get<std::string>(), f.at("bytes").get<std::uint64_t>(),
                           f.at("xxh3").get<std::string>()});
  } catch (const Json::exception& e) {
    damaged(e.what(), path);
  }
  return out;
}

std::map<std::string, std::string> library_versions() {
  std::map<std::string, std::string> out{{"belfry", kVersion}, {"compiler", __VERSION__}};
  out["onednn"] = std::to_string(DNNL_VERSION_MAJOR) + "." + std::to_string(DNNL_VERSION_MINOR) +
                  "." + std::to_string(DNNL_VERSION_PATCH);
  out["instruction_set"] = name_of(instruction_set());
  return out;
}

}  // namespace belfry
