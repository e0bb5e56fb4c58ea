// The small files beside the weights: config, index, tokenizer, chat template, model card.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"

namespace moepack {

// Remembers the state of these files before the first of them is read. If it is the same at the
// end, everything read in between came from one state, however often it was read.
class SideFiles {
 public:
  // `config_file` as for ModelOptions.
  static SideFiles Note(const SourceTreePtr& tree, const std::string& config_file = "");
  // kCorrupt if one of them has changed, disappeared or been added.
  Status CheckUnchanged() const;

 private:
  // No value for a file that is absent or cannot be opened; the code that reads it reports that.
  using Identity = std::optional<std::string>;

  SourceTreePtr tree_;
  std::map<std::string, Identity> files_;  // of the tree
  std::string config_file_;                // that the user named; "" for none
  Identity config_;
};

}  // namespace moepack
