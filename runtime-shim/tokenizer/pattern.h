// One regular expression of a pre-tokenizer: PCRE2 on UTF-8 with Unicode properties.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"

namespace runtime {

class Pattern {
 public:
  // kInvalidArgument when PCRE2 refuses the expression.
  static shard::Result<Pattern> Compile(std::string_view expression);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // Cuts each piece, on its own, into matches and what lies between them, in order; nothing is
  // dropped. The pieces are valid UTF-8. kUnsupported when a match takes more steps or memory than
  // a text that is not an attack needs.
  shard::Result<std::vector<std::string_view>> Split(
      const std::vector<std::string_view>& pieces) const;

 private:
  struct Code;
  explicit Pattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace runtime
