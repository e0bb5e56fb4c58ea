// One regular expression of a pre-tokenizer, with Unicode properties.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "libshard/base/regex.h"
#include "libshard/base/result.h"

namespace runtime {

class Pattern {
 public:
  // Errors are those of shard::Regex.
  static shard::Result<Pattern> Compile(std::string_view expression);

  // Cuts each piece, on its own, into matches and what lies between them, in order; nothing is
  // dropped. The pieces are valid UTF-8. kUnsupported when a match takes more steps or memory than
  // a text that is not an attack needs.
  shard::Result<std::vector<std::string_view>> Split(
      const std::vector<std::string_view>& pieces) const;

 private:
  explicit Pattern(shard::Regex regex) : regex_(std::move(regex)) {}
  shard::Regex regex_;
};

}  // namespace runtime
