// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/tokens/tokens.h"

#include <limits>

#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/data/byte_file.h"

namespace belfry {
namespace {

class TokensFactory final : public DatasetFactory {
 public:
  void declare(Schema& schema) override {
    schema
        .key("files", files_,
             {.path = true,
              .help = "files of token numbers, plain or gzip, read one after the other"})
        .key("dtype", options_.dtype,
             {.choices = {"u16", "u32"}, .help = "of a token: unsigned, little endian"})
        .key("vocabulary", options_.vocabulary,
             {.min = 0, .max = 2147483647.0, .help = "number of tokens; 0: the largest + 1"});
    options_.windows.declare(schema, "tokens");
    schema.rule([this] { return files_.empty() ? std::string("`files` is needed") : ""; });
  }
  bool images() const override { return false; }
  bool stands_alone() const override { return true; }
  std::vector<std::string> row_keys() const override { return {"dtype"}; }
  std::shared_ptr<const Dataset> open(const std::string& base) const override {
    std::vector<std::string> files;
    for (const std::string& f : files_) files.push_back(path_in(base, f));
    return tokens(files, options_);
  }

 private:
  std::vector<std::string> files_;
  TokensOptions options_;
};

void append_tokens(const std::string& name, std::size_t width, std::vector<std::uint8_t>& out) {
  ByteFile file(name);
  const std::size_t before = out.size();
  file.append(out, std::numeric_limits<std::uint64_t>::max());
  const std::size_t bytes = out.size() - before;
  if (const std::string known = guess_format(out.data() + before, bytes); !known.empty())
    throw DataError(ErrorText{.what = "not a file of token numbers",
                              .found = known,
                              .expected = "unsigned numbers, little endian, without a header",
                              .fix = "write the tokens alone; text itself is data set 'text'",
                              .file = name});
  if (bytes % width != 0)
    throw DataError(ErrorText{.what = "the file does not hold whole tokens",
                              .found = count_text(static_cast<std::int64_t>(bytes), "byte"),
                              .expected = "a multiple of " + std::to_string(width),
                              .fix = "check `dtype`; the file may be cut",
                              .file = name});
}

}  // namespace

std::shared_ptr<const Dataset> tokens(const std::vector<std::string>& files,
                                      const TokensOptions& options) {
  if (options.dtype != "u16" && options.dtype != "u32")
    throw ConfigError(ErrorText{.what = "tokens: `dtype` is unknown",
                                .found = "'" + options.dtype + "'",
                                .expected = "'u16' or 'u32'"});
  TokenWindows::Content content{.width = options.dtype == "u16" ? 2u : 4u,
                                .classes = options.vocabulary,
                                .kind = "tokens",
                                .unit = "token"};
  for (const std::string& name : files) {
    append_tokens(name, content.width, content.bytes);
    content.file += (content.file.empty() ? "" : ", ") + name;
  }
  return std::make_shared<TokenWindows>(std::move(content), options.windows);
}

void register_dataset_tokens(Registry& registry) {
  registry.table<DatasetEntry>().add("tokens", {[] { return std::make_unique<TokensFactory>(); },
                                                "files of u16 or u32 token numbers"});
}

}  // namespace belfry
