// The small files beside the weights that decide how the weights are used: config, index,
// tokenizer, chat template, model card.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "libshard/base/result.h"
#include "libshard/base/source_tree.h"

namespace moepack {

// The state of these files before the first of them was read. If it is the same at the end,
// everything that was read in between, however often, came from one state.
class SideFiles {
 public:
  // `config_file` as for ModelOptions.
  static SideFiles Note(const SourceTreePtr& tree, const std::string& config_file = "");
  // kCorrupt if one of them has changed, is gone or is new.
  Status CheckUnchanged() const;

 private:
  // None for what is not there or cannot be opened; whoever reads it says so.
  using Identity = std::optional<std::string>;

  SourceTreePtr tree_;
  std::map<std::string, Identity> files_;  // of the tree
  std::string config_file_;                // that the user named; "" for none
  Identity config_;
};

}  // namespace moepack
