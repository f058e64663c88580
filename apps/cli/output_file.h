// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "belfry/apps/cli.h"

namespace belfry {

// A file that a flag names for a command's result. Checked by the constructor, before any work:
// ConfigError for a folder, for one that cannot be written, and for one of `inputs`. "-" is stdout.
// Links are followed; a regular file is replaced as a whole, a device, FIFO or socket written to.
class OutputFile {
 public:
  OutputFile() = default;  // none
  OutputFile(const std::string& flag, std::string path, const std::vector<std::string>& inputs);

  bool wanted() const { return !path_.empty(); }
  bool to_stdout() const { return path_ == "-"; }
  const std::string& path() const { return path_; }  // as the user wrote it
  void write(std::string_view text, const CliIo& io) const;

 private:
  std::string path_;
  std::string target_;  // behind all links
  bool direct_ = false;
};

// What is wrong with the text of a flag that names such a file; "" when nothing is.
std::string file_name_fault(const std::string& text);

// Throws CheckpointError unless `folder` can be written to, or made, by trying it: what is made for
// that is removed again. "" is fine.
void require_output_folder(const std::string& folder);

}  // namespace belfry
