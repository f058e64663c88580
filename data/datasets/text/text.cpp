// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/text/text.h"

#include <limits>

#include "belfry/core/registry.h"
#include "belfry/data/byte_file.h"

namespace belfry {
namespace {

class TextFactory final : public DatasetFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("files", files_,
               {.path = true, .help = "text files, plain or gzip, read one after the other"});
    options_.declare(schema, "bytes");
    schema.rule([this] { return files_.empty() ? std::string("`files` is needed") : ""; });
  }
  bool images() const override { return false; }
  bool stands_alone() const override { return true; }
  std::shared_ptr<const Dataset> open(const std::string& base) const override {
    std::vector<std::string> files;
    for (const std::string& f : files_) files.push_back(path_in(base, f));
    return text(files, options_);
  }

 private:
  std::vector<std::string> files_;
  WindowOptions options_;
};

}  // namespace

std::shared_ptr<const Dataset> text(const std::vector<std::string>& files,
                                    const WindowOptions& options) {
  TokenWindows::Content content{.kind = "text", .unit = "byte"};
  for (const std::string& name : files) {
    ByteFile file(name);
    const std::size_t before = content.bytes.size();
    file.append(content.bytes, std::numeric_limits<std::uint64_t>::max());
    const std::string known =
        guess_format(content.bytes.data() + before, content.bytes.size() - before);
    if (!known.empty() && content.warning.empty())
      content.warning = name + " looks like " + known + "; its bytes are used as they are";
    content.file += (content.file.empty() ? "" : ", ") + name;
  }
  return std::make_shared<TokenWindows>(std::move(content), options);
}

void register_dataset_text(Registry& registry) {
  registry.table<DatasetEntry>().add(
      "text", {[] { return std::make_unique<TextFactory>(); }, "the bytes of text files"});
}

}  // namespace belfry
