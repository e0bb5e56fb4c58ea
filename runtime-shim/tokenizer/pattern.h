// One regular expression of a pre-tokenizer, with Unicode properties.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/regex.h"

namespace moepack::runtime {

class Pattern {
 public:
  // Errors are those of Regex.
  static Result<Pattern> Compile(std::string_view expression);

  // Splits each piece separately into matches and the text between them, in order; nothing is
  // dropped. The pieces are valid UTF-8. kUnsupported if a match needs more steps or memory than
  // any text that is not an attack.
  Result<std::vector<std::string_view>> Split(const std::vector<std::string_view>& pieces) const;

 private:
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}
  Regex regex_;
};

}  // namespace moepack::runtime
