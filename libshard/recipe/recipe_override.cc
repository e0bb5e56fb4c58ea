#include "libshard/recipe/recipe_override.h"

#include <algorithm>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/recipe_llama.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Takes one rule off the front of `text`; "" for none. A comma inside [] or {} belongs to the
// expression, and a backslash protects what follows it.
std::string_view TakeRule(std::string_view& text) {
  size_t end = 0;
  int open = 0;
  while (end < text.size() && !IsSpace(text[end]) && (text[end] != ',' || open > 0)) {
    if (text[end] == '[' || text[end] == '{') ++open;
    if ((text[end] == ']' || text[end] == '}') && open > 0) --open;
    end += text[end] == '\\' && end + 1 < text.size() ? 2 : 1;
  }
  const std::string_view rule = text.substr(0, end);
  text.remove_prefix(end);
  return rule;
}

// Converts a pattern to lower case, except after a backslash, where letters name classes and \D is
// not \d.
std::string LowerPattern(std::string_view pattern) {
  std::string lower = Lower(pattern);
  for (size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] != '\\') continue;
    ++i;
    lower[i] = pattern[i];
  }
  return lower;
}

Result<TypeOverride> ParseRule(std::string_view rule) {
  TypeOverride parsed{.option = "--tensor-type", .expression = std::string(rule)};
  const std::string label = parsed.Label();
  // The last one: an expression may contain "=".
  const size_t equals = rule.rfind('=');
  if (equals == std::string_view::npos || equals == 0) {
    return Error{Code::kInvalidArgument, Cat(label, ": expected REGEX=TYPE, found ",
                                             equals == 0 ? "no expression" : "no =")};
  }
  SHARD_TRY(parsed.type, ParseTargetType(label, rule.substr(equals + 1)));
  // llama-quantize lowers the whole option, so an expression in capital letters works there, too.
  auto regex = Regex::Compile(LowerPattern(rule.substr(0, equals)));
  if (!regex) return std::move(regex).error().Within(label);
  parsed.regex = *std::move(regex);
  return parsed;
}

// Skips what separates rules: white space, commas, comments.
void SkipToRule(std::string_view& text) {
  while (!text.empty()) {
    if (IsSpace(text.front()) || text.front() == ',') {
      text.remove_prefix(1);
    } else if (text.front() == '#') {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else {
      return;
    }
  }
}

Status ParseText(std::string_view text, std::vector<TypeOverride>& rules) {
  for (SkipToRule(text); !text.empty(); SkipToRule(text)) {
    SHARD_TRY(TypeOverride rule, ParseRule(TakeRule(text)));
    rules.push_back(std::move(rule));
    if (rules.size() > kMaxTypeRules) {
      return Error{Code::kInvalidArgument,
                   Cat("--tensor-type: expected at most ", kMaxTypeRules, " rules, found more")};
    }
  }
  return Ok();
}

}  // namespace

std::string TypeOverride::Label() const {
  return expression.empty() ? option : Cat(option, " ", Quoted(expression));
}

Result<std::vector<TypeOverride>> ParseTensorTypes(const std::vector<std::string>& texts) {
  std::vector<TypeOverride> rules;
  for (const std::string& text : texts) {
    const size_t before = rules.size();
    SHARD_CHECK(ParseText(text, rules));
    if (rules.size() == before) {
      return Error{Code::kInvalidArgument,
                   Cat("--tensor-type ", Quoted(text), ": expected REGEX=TYPE, found no rule")};
    }
  }
  return rules;
}

std::vector<std::string> SplitTensorTypes(std::string_view text) {
  std::vector<std::string> rules;
  for (SkipToRule(text); !text.empty(); SkipToRule(text)) rules.emplace_back(TakeRule(text));
  return rules;
}

Result<TypeOverrides> TypeOverrides::Make(const RecipeOptions& options, const GgufModel& model) {
  using Kind = TypeOverride::Kind;
  struct Option {
    const char* label;
    Kind kind;
    const std::string& type;
  };
  TypeOverrides overrides;
  overrides.embedding_is_output_ = options.embedding_type.empty() && IsTied(model);
  SHARD_TRY(overrides.rules_, ParseTensorTypes(options.tensor_types));
  for (const Option& option :
       {Option{"--output-tensor-type", Kind::kOutput, options.output_type},
        Option{"--token-embedding-type", Kind::kEmbedding, options.embedding_type},
        Option{"--experts-type", Kind::kExperts, options.experts_type},
        Option{"--trunk-type", Kind::kTrunk, options.trunk_type}}) {
    if (option.type.empty()) continue;
    SHARD_TRY(const quant::Format* type, ParseTargetType(option.label, option.type));
    overrides.rules_.push_back(
        {.option = option.label, .expression = {}, .kind = option.kind, .type = type});
  }
  return overrides;
}

Result<const TypeOverride*> TypeOverrides::Find(const GgufTensor& tensor) {
  const bool may_change = MayChange(tensor);
  TypeOverride* first = nullptr;
  for (TypeOverride& rule : rules_) {
    // There may be thousands of rules, so a rule is matched only if the answer can change anything.
    if (first != nullptr && rule.used) continue;
    if (!may_change && (rule.used || rule.type != KeptType(tensor))) continue;
    Result<bool> matches = Matches(rule, tensor);
    if (!matches) return std::move(matches).error().Within(rule.Label());
    if (!*matches) continue;
    rule.used = true;
    if (first == nullptr) first = &rule;
  }
  if (first != nullptr) first->decided = true;
  return may_change ? first : nullptr;
}

Result<bool> TypeOverrides::Matches(const TypeOverride& rule, const GgufTensor& tensor) const {
  switch (rule.kind) {
    case TypeOverride::Kind::kRegex:
      return rule.regex->Search(tensor.name);
    case TypeOverride::Kind::kOutput:
      return IsOutput(tensor.name) || (embedding_is_output_ && IsEmbedding(tensor.name));
    case TypeOverride::Kind::kEmbedding:
      return IsEmbedding(tensor.name);
    case TypeOverride::Kind::kExperts:
      return tensor.part == Part::kExpert;
    default:
      return tensor.part != Part::kExpert;
  }
}

Status TypeOverrides::CheckAllUsed() const {
  for (const TypeOverride& rule : rules_) {
    if (rule.used) continue;
    return Error{
        Code::kInvalidArgument,
        Cat(rule.Label(), ": expected a tensor that may get this type, found none"),
        "--dry-run --tensors prints the names; norms, routers and vectors keep their type"};
  }
  return Ok();
}

std::string TypeOverrides::HiddenRules() const {
  std::string first;
  size_t hidden = 0;
  for (const TypeOverride& rule : rules_) {
    if (!rule.used || rule.decided) continue;
    if (hidden++ == 0) first = rule.Label();
  }
  if (hidden == 0) return "";
  return Cat(first, hidden > 1 ? Cat(" and ", Plural(hidden - 1, "other rule")) : "",
             ": no tensor gets this type, because earlier rules match first");
}

}  // namespace moepack
