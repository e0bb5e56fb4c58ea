#include "libshard/recipe/recipe_regex.h"

#include <regex>
#include <string>

#include "libshard/base/text.h"

namespace shard {
namespace {

constexpr size_t kMaxPattern = 4096;
// libstdc++'s matcher without backtracking: expressions that would take ages otherwise end at once.
// It knows no back references, which names have no use for.
constexpr auto kSyntax = std::regex::ECMAScript | std::regex_constants::__polynomial;

// std::regex throws what it dislikes about an expression, and only then.
const char* Reason(const std::regex_error& error) {
  switch (error.code()) {
    case std::regex_constants::error_brack:
      return "brackets [] that match";
    case std::regex_constants::error_paren:
      return "parentheses () that match";
    case std::regex_constants::error_brace:
    case std::regex_constants::error_badbrace:
      return "braces {} with one or two numbers";
    case std::regex_constants::error_range:
      return "a range from low to high";
    case std::regex_constants::error_badrepeat:
      return "something to repeat before * + ? or {}";
    case std::regex_constants::error_escape:
      return "a known letter behind \\";
    case std::regex_constants::error_space:
    case std::regex_constants::error_complexity:
    case std::regex_constants::error_stack:
      return "a simpler expression";
    default:
      return "a valid one";
  }
}

}  // namespace

struct RecipeRegex::Expression {
  std::regex regex;
};

Result<RecipeRegex> RecipeRegex::Compile(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > kMaxPattern) {
    return Error{Code::kInvalidArgument, Cat("regular expression: expected 1 to ", kMaxPattern,
                                             " characters, found ", pattern.size())};
  }
  try {
    return RecipeRegex(std::make_shared<const Expression>(
        Expression{std::regex(pattern.begin(), pattern.end(), kSyntax)}));
  } catch (const std::regex_error& error) {
    return Error{Code::kInvalidArgument,
                 Cat("regular expression: expected ", Reason(error), ", found ", Quoted(pattern))};
  }
}

bool RecipeRegex::Search(std::string_view text) const {
  return std::regex_search(text.begin(), text.end(), expression_->regex);
}

}  // namespace shard
