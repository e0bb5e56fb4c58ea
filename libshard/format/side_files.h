// The small files beside the weights that decide what is made of them: config, index, tokenizer,
// chat template, model card.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "libshard/base/file.h"
#include "libshard/base/result.h"

namespace shard {

// What these files were before the first of them was read. If they are the same at the end, all
// that was read in between, however often, was one state of them.
class SideFiles {
 public:
  // `source` as for Checkpoint::Open; `config_file` as for ModelOptions.
  static SideFiles Note(const fs::path& source, const std::string& config_file = "");
  // kCorrupt if one of them is not what it was, is gone or is new.
  Status CheckUnchanged() const;

 private:
  std::map<fs::path, std::optional<FileIdentity>> files_;
};

}  // namespace shard
