// SPDX-License-Identifier: MIT
#include "belfry/towers/train_config.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "belfry/allreduce/mover.h"
#include "belfry/core/key_error.h"
#include "belfry/core/plugin_choice.h"
#include "belfry/core/units.h"
#include "belfry/device/cpu/precision.h"
#include "belfry/device/tower_list.h"
#include "belfry/optim/optimizer_config.h"

namespace belfry {
namespace {

// Some keys of a schema, for those that live in two tables.
Schema only(const Schema& all, const std::vector<std::string>& names, bool keep) {
  Schema out;
  for (const Key& key : all.keys())
    if ((std::find(names.begin(), names.end(), key.name) != names.end()) == keep)
      std::visit([&](auto* target) { out.key(key.name, *target, key.options); }, key.target);
  return out;
}

std::string towers_fault(const std::string& towers) {
  try {
    parse_towers(towers);
    return "";
  } catch (const ConfigError& error) {
    const bool number = !towers.empty() && towers.find_first_not_of("0123456789") == towers.npos;
    return "found " + error.text().found + ", expected " + error.text().expected +
           (number ? "; did you mean \"cpu:" + towers + "\"?" : std::string());
  }
}

std::vector<std::string> transports(const Registry& registry) {
  std::vector<std::string> out = registry.table<TransportEntry>().names();
  out.insert(out.begin(), "auto");
  return out;
}

// What GPUs have and CPU towers have not.
std::string device_fault(const TrainConfig& c) {
  if (!towers_fault(c.towers).empty() || parse_towers(c.towers).backend != Backend::cpu) return "";
  std::string fault = cpu_precision_fault(parse_precision(c.precision));
  if (!fault.empty()) return fault;
  if (c.transport == "nccl")
    return "transport = \"nccl\" needs towers on GPUs; those on the CPU have \"threads\"";
  return "";
}

void bind_top(Document& document, const Registry& registry, TrainConfig& c) {
  Schema top;
  top.key("towers", c.towers,
          {.help = "\"cpu:N\": N towers on this machine's cores; \"cuda:all\", \"cuda:0,1\": "
                   "GPUs; \"cuda:0x4\": 4 towers on GPU 0; \"cuda:0x2,1x2\": 2 on each of two"})
      .key("threads_per_tower", c.threads_per_tower,
           {.min = 0, .max = 1024, .help = "0: cores / towers"})
      .key("precision", c.precision,
           {.choices = {"f32", "tf32", "bf16"},
            .help = "of products and convolutions (CPU: f32, and bf16 where it has AVX-512 BF16); "
                    "sums and parameters are f32"})
      .key("seed", c.seed, {.min = 0, .help = "of initial values, row order and dropout"})
      .key("output", c.output, {.help = "folder of checkpoints and metrics; empty keeps nothing"})
      .key("variables", c.variables,
           {.choices = {"shared", "replicated"},
            .help = "one copy of the parameters, or one a tower"})
      .key(
          "transport", c.transport,
          {.choices = transports(registry),
           .help = "how gradients are exchanged; auto: nccl where each tower has a GPU of its own, "
                   "else threads"})
      .key("timeout_seconds", c.timeout_seconds,
           {.min = 0.1,
            .max = 1e6,
            .unit = "seconds",
            .help = "an exchange between GPUs without progress for so long is an error"})
      .key("check_replicas", c.check_replicas,
           {.min = 0,
            .max = 1e9,
            .unit = "updates",
            .help = "with replicated variables: updates between comparisons of them; 0: none"})
      .key("capture", c.capture,
           {.help = "record forward and backward once for each kind of shard and replay them"})
      .key("check_capture", c.check_capture,
           {.min = 0,
            .max = 1e9,
            .unit = "updates",
            .help = "with capture: updates after which a step is recorded anew and must have the "
                    "same ops; 0: never"})
      .key("exchange_delay_seconds", c.exchange_delay,
           {.min = 0,
            .max = 3600,
            .unit = "seconds",
            .help = "artificial delay of each exchange; for tests"})
      .key("label_smoothing", c.label_smoothing,
           {.min = 0,
            .max = 1,
            .exclusive_max = true,
            .help = "share of the training target spread over all classes; evaluation has none"})
      .rule([&c] { return device_fault(c); });
  document.bind("", top);
  // Not a rule: it is told beside other faults of the top level.
  if (const std::string fault = towers_fault(c.towers); !fault.empty())
    document.fault("", "towers", fault);
}

void bind_loader(Document& document, TrainConfig& c) {
  Schema loader;
  c.loader.declare(loader);
  const std::vector<std::string> at_top{"batch", "epochs"};
  document.bind("", only(loader, at_top, true));
  Schema rest = only(loader, at_top, false);
  rest.rule([&c] { return c.loader.fault(); });
  document.bind("loader", rest);
}

const std::vector<std::string> kRange{"first", "count", "part"};  // of a file

// Whether `table` names a file that [data] does not.
bool names_other_files(const Document& document, const std::string& table, const Schema& keys) {
  return std::any_of(keys.keys().begin(), keys.keys().end(), [&](const Key& k) {
    return k.options.path && document.differs(table, k.name, "data");
  });
}

// The rows [first, end) that a data set was told to take, all where it knows no ranges, and which
// part of them.
struct Taken {
  std::int64_t first = 0, end = 0;
  std::string part;
};

Taken rows_taken(DatasetFactory& factory) {
  RowRange range;
  Taken out;
  Schema keys;
  factory.declare(keys);
  for (const Key& k : keys.keys()) {
    const auto* const* number = std::get_if<std::int64_t*>(&k.target);
    if (number != nullptr && k.name == "first") range.first = **number;
    if (number != nullptr && k.name == "count") range.count = **number;
    const auto* const* text = std::get_if<std::string*>(&k.target);
    if (text != nullptr && k.name == "part") out.part = **text;
  }
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  out.first = range.first;
  out.end = range.count < 0 || range.count > most - range.first ? most : range.first + range.count;
  return out;
}

// Whether `table` takes rows that [data] takes too: the same files and all, and ranges that meet.
bool repeats_rows(DatasetFactory& extra, DatasetFactory& data) {
  Schema keys, data_keys;
  extra.declare(keys);
  data.declare(data_keys);
  for (std::size_t i = 0; i < keys.keys().size(); ++i) {
    const Key &k = keys.keys()[i], &other = data_keys.keys()[i];
    if (std::find(kRange.begin(), kRange.end(), k.name) != kRange.end()) continue;
    const auto equal = [&other](auto* value) {
      return *value == **std::get_if<decltype(value)>(&other.target);
    };
    if (!std::visit(equal, k.target)) return false;
  }
  const Taken mine = rows_taken(extra), theirs = rows_taken(data);
  const bool apart = mine.part != theirs.part && mine.part != "all" && theirs.part != "all";
  return !apart && mine.first < theirs.end && theirs.first < mine.end;
}

// What `table` does not take from [data]: a range of rows is one of the file it was written for,
// and files named by keys that [data] does not use are others altogether.
std::vector<std::string> not_taken(const Document& document, const std::string& table,
                                   const Schema& keys) {
  std::vector<std::string> out;
  if (names_other_files(document, table, keys)) out = kRange;
  if (document.has_key(table, "first") || document.has_key(table, "count"))
    out.insert(out.end(), {"first", "count"});  // a range is said as a whole
  const auto path = [](const Key& k) { return k.options.path; };
  const bool others = std::any_of(keys.keys().begin(), keys.keys().end(), [&](const Key& k) {
    return path(k) && document.has_key(table, k.name) && !document.has_key("data", k.name);
  });
  for (const Key& k : keys.keys())
    if (others && path(k)) out.push_back(k.name);
  return out;
}

// Keys of [data] that change training images, for the kinds that have some.
void bind_augment(Document& document, const Registry& registry, TrainConfig& c) {
  Schema keys;
  c.loader.augment.declare(keys);
  if (c.data.factory->images()) return document.bind("data", keys);
  for (const auto& [name, entry] : registry.table<DatasetEntry>())
    for (const Key& k : keys.keys())
      if (entry.make()->images()) document.note_owner("data", k.name, "data set", name);
}

void collect_files(const Schema& keys, const std::string& table, DataSource& source) {
  source.files.clear();
  const std::vector<std::string> unread =
      table == "predict" ? source.factory->label_files() : std::vector<std::string>();
  for (const Key& key : keys.keys()) {
    if (!key.options.path || std::count(unread.begin(), unread.end(), key.name) > 0) continue;
    if (const auto* const* one = std::get_if<std::string*>(&key.target))
      source.files.push_back(**one);
    if (const auto* const* several = std::get_if<std::vector<std::string>*>(&key.target))
      source.files.insert(source.files.end(), (*several)->begin(), (*several)->end());
  }
}

// A column that a list of columns names twice.
void refuse_repeats(Document& document, const std::string& table, const Schema& keys) {
  for (const Key& key : keys.keys()) {
    const auto* const* list = std::get_if<std::vector<std::string>*>(&key.target);
    if (list == nullptr || !key.options.index || !document.has_key(table, key.name)) continue;
    std::vector<std::string> sorted = **list;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) document.fault(table, key.name, "it names '" + *twice + "' twice");
  }
}

// Reads `table` but for the keys `without`. Rules do not speak of what [data] failed to give.
void bind_source(Document& document, const std::string& table, DataSource& source,
                 const std::vector<std::string>& without = {}) {
  Schema keys;
  source.factory->declare(keys);
  const bool whole = without.empty() && !document.at_fault("data");
  document.bind(table, whole ? keys : only(keys, without, false));
  collect_files(keys, table, source);
  refuse_repeats(document, table, keys);
  const bool labelled = std::any_of(keys.keys().begin(), keys.keys().end(),
                                    [](const Key& k) { return k.name == "ignore"; });
  if (!labelled) return;
  Schema ignore;
  ignore.key("ignore", source.ignore);
  document.bind(table, ignore);
}

// A table of data of its own kind, or with what it does not say taken from [data].
std::optional<DataSource> extra_source(Document& document, const Registry& registry,
                                       const std::string& table, const DataSource& data) {
  if (!document.wants_table(table)) return std::nullopt;
  const std::string& data_name = data.name;
  DataSource out;
  out.name = document.peek_string(table, "name", data_name);
  if (out.name == data_name && registry.table<DatasetEntry>().find(data_name) == nullptr) {
    know_all_keys<DatasetEntry>(document, registry, table);  // [data] has the fault
    return std::nullopt;
  }
  out.factory = choose_plugin<DatasetEntry>(document, registry, table, "data set", data_name);
  if (!out.factory) return std::nullopt;
  Schema keys;
  out.factory->declare(keys);
  if (out.name == data_name) bind_source(document, "data", out, not_taken(document, table, keys));
  bind_source(document, table, out);
  out.repeats =
      out.name == data.name && data.factory != nullptr && repeats_rows(*out.factory, *data.factory);
  if (!out.repeats || table != "validation" || document.at_fault("data")) return out;
  const bool parts = !rows_taken(*out.factory).part.empty();
  Schema whole;
  whole.rule([parts] {
    return std::string(
               "it reads rows that [data] trains on; name other files in it, or cut both "
               "out of one set: ") +
           (parts ? "[data] part = \"train\" and [validation] part = \"validation\""
                  : "[data] count = N and [validation] first = N");
  });
  document.bind(table, whole);
  return out;
}

// Faults that hooks would find only at the start of the run, when the data has been read.
void check_hooks(Document& document, TrainConfig& c) {
  for (const std::string table : {"checkpoint", "validation"}) {
    if (!document.has_table(table)) continue;
    std::string every = "1e";
    Schema keys;
    keys.key("every", every, {.period = true});
    document.bind(table, keys);
    if (!(Period::parse(every).value > 0))
      document.fault(table, "every", "found '" + every + "', expected a period above 0");
  }
  for (const std::string table : {"checkpoint", "early_stop"}) {
    if (!document.has_table(table)) continue;
    TrainConfig::Score& score = c.scores[table];
    Schema keys;
    keys.key("metric", score.metric, {.choices = {"auto", "accuracy", "loss", "mae"}});
    keys.key("mode", score.mode, {.choices = {"auto", "min", "max"}});
    document.bind(table, keys);
  }
  if (!document.has_table("early_stop")) return;
  std::int64_t patience = 0;
  Schema stop;
  stop.key("patience", patience, {.min = 0});
  document.bind("early_stop", stop);
  if (patience > 0 && !document.has_table("validation"))
    document.fault("early_stop", "patience", "it needs a table [validation]");
}

void bind_hooks(Document& document, const Registry& registry, TrainConfig& c) {
  for (const auto& [name, entry] : registry.table<HookEntry>()) {
    std::shared_ptr<Hook> hook = entry.make();
    c.hooks.push_back(hook);
    if (hook->optional_table() && !document.wants_table(hook->table())) continue;
    Schema keys;
    hook->declare(keys);
    document.bind(hook->table(), keys);
  }
  Schema checkpoint;
  checkpoint.key("fallback", c.fallback,
                 {.help = "resume from an older checkpoint when the newest is damaged"});
  document.bind("checkpoint", checkpoint);
  check_hooks(document, c);
}

}  // namespace

bool DataSource::has_key(const std::string& key) const {
  Schema keys;
  factory->declare(keys);
  return std::any_of(keys.keys().begin(), keys.keys().end(),
                     [&](const Key& k) { return k.name == key; });
}

void TrainConfig::at_place(const std::string& table, const std::function<void()>& f) const {
  const auto placed = [&](const std::string& key, const ErrorText& text) {
    if (!document || !text.file.empty()) return text;
    const bool inherited = !document->has_key(table, key) && document->has_key("data", key) &&
                           (table == "test" || table == "validation" || table == "predict");
    return document->placed(inherited ? "data" : table, key, text);
  };
  try {
    f();
  } catch (const KeyError& error) {
    throw ConfigError(placed(error.key(), error.text()));
  } catch (const ConfigError& error) {
    throw ConfigError(placed("name", error.text()));
  }
}

TrainConfig TrainConfig::load(Document document, const Registry& registry) {
  TrainConfig c;
  bind_top(document, registry, c);
  bind_loader(document, c);
  c.model_name = document.peek_string("model", "name", "");
  c.model = choose_plugin<ModelEntry>(document, registry, "model", "model", "");
  if (c.model) {
    Schema keys;
    c.model->declare(keys);
    document.bind("model", keys);
    c.model->read(document, registry);
  }
  c.data.name = document.peek_string("data", "name", "");
  c.data.factory = choose_plugin<DatasetEntry>(document, registry, "data", "data set", "");
  if (c.data.factory) {
    bind_source(document, "data", c.data);
    bind_augment(document, registry, c);
  } else {
    Schema augment;
    c.loader.augment.declare(augment);
    for (const Key& key : augment.keys()) document.know("data", key.name);
  }
  c.validation = extra_source(document, registry, "validation", c.data);
  c.test = extra_source(document, registry, "test", c.data);
  c.predict = extra_source(document, registry, "predict", c.data);
  const OptimizerLoader optimizer(document, registry);
  bind_hooks(document, registry, c);
  document.finish();
  c.optimizer = optimizer.build();
  c.base = std::filesystem::path(document.file()).parent_path().string();
  c.effective = document.dump();
  c.described = document.describe();
  c.document = std::make_shared<const Document>(std::move(document));
  return c;
}

}  // namespace belfry
