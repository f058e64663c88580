// SPDX-License-Identifier: MIT
// CSV text, plain and gzip. The first line is options, "key=value" with blanks between; what
// follows is the file.
#include "belfry/data/datasets/csv/csv.h"

#include <charconv>

#include "fuzz.h"
#include "rows.h"

namespace belfry::fuzz {
namespace {

std::int64_t number(std::string_view text) {
  std::int64_t v = 0;
  std::from_chars(text.data(), text.data() + text.size(), v);
  return v;
}

void set(CsvOptions& o, Pack& pack, std::string_view key, std::string_view value) {
  const std::string text(value);
  if (key == "label") o.label = text;
  if (key == "feature") o.features.push_back(text);
  if (key == "target") o.targets.push_back(text);
  if (key == "unlabelled") o.unlabelled = true;
  if (key == "extent") o.shape.push_back(number(value));
  if (key == "header") o.header = text;
  if (key == "missing") o.missing = text;
  if (key == "delimiter") o.delimiter = text;
  if (key == "scale") o.scale = static_cast<double>(number(value));
  if (key == "classes") o.labels.classes = number(value);
  if (key == "ignore") o.labels.ignore = number(value);
  if (key == "first") o.rows.first = number(value);
  if (key == "count") o.rows.count = number(value);
  if (key == "pack") pack = Pack(number(value) & 3);
}

void set_all(CsvOptions& options, Pack& pack, std::string_view line) {
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    const std::size_t equals = word.find('=');
    if (equals != word.npos) set(options, pack, word.substr(0, equals), word.substr(equals + 1));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
}

}  // namespace
}  // namespace belfry::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t end = std::min(text.find('\n'), text.size());
  CsvOptions options;
  fuzz::Pack pack = fuzz::Pack::plain;
  fuzz::set_all(options, pack, text.substr(0, end));
  const fuzz::File file(fuzz::packed(text.substr(std::min(end + 1, text.size())), pack));
  fuzz::accepts<ConfigError, DataError>([&] { fuzz::use(*csv(file.path(), options)); });
  return 0;
}
