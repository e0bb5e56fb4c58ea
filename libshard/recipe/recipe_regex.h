// Regular expressions for tensor names, in the dialect that llama.cpp reads them in: std::regex.
#pragma once

#include <memory>
#include <string_view>

#include "libshard/base/result.h"

namespace shard {

// Copyable. Matching takes time in proportion to name and expression, whatever they are.
class RecipeRegex {
 public:
  // kInvalidArgument; the message is a clause about the expression.
  static Result<RecipeRegex> Compile(std::string_view pattern);

  // Whether any part of `text` matches.
  bool Search(std::string_view text) const;

 private:
  struct Expression;
  explicit RecipeRegex(std::shared_ptr<const Expression> expression)
      : expression_(std::move(expression)) {}
  std::shared_ptr<const Expression> expression_;
};

}  // namespace shard
