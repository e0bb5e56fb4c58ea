// The small files beside the weights that decide how the weights are used: config, index,
// tokenizer, chat template, model card.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "libshard/base/file.h"
#include "libshard/base/result.h"

namespace shard {

// The state of these files before the first of them was read. If it is the same at the end,
// everything that was read in between, however often, came from one state.
class SideFiles {
 public:
  // `source` as for Checkpoint::Open; `config_file` as for ModelOptions.
  static SideFiles Note(const fs::path& source, const std::string& config_file = "");
  // kCorrupt if one of them has changed, is gone or is new.
  Status CheckUnchanged() const;

 private:
  std::map<fs::path, std::optional<FileIdentity>> files_;
};

}  // namespace shard
