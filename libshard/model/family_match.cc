// Matches tensor names against the rows of a family.
//
// The work is done once per shape of name: "model.layers.3.mlp.experts.17.up_proj.weight" has the
// shape "model.layers.#.mlp.experts.#.up_proj.weight", which it shares with thousands of others.
// What the rows say about a shape is cached together with the positions of its numbers, so a name
// usually costs writing its shape into a buffer and one hash look-up.
#include <cassert>
#include <optional>
#include <utility>

#include "libshard/base/text_map.h"
#include "libshard/model/family_pattern.h"

namespace moepack {
namespace {

// Stands for a component of digits in shapes.
constexpr std::string_view kNumber = "#";
// The role of tensors that all MTP blocks share and that have no block number: "mtp.fc.weight".
constexpr std::string_view kMtpRole = "mtp";
// A longer number is not a layer or expert, and tables indexed by it would only waste memory.
constexpr size_t kMaxNumberDigits = 6;

// Returns no value for a number that is too large or has leading zeros: "experts.07" must not mean
// expert 7, which may be there as well.
std::optional<uint32_t> ParseIndex(std::string_view digits) {
  if (digits.size() > kMaxNumberDigits) return std::nullopt;
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  uint32_t value = 0;
  for (const char digit : digits) value = value * 10 + static_cast<uint32_t>(digit - '0');
  return value;
}

struct CompiledRule {
  const TensorRule* rule = nullptr;
  std::vector<Token> tokens;
};

// What the rows say about a shape. Ordinals count the numbers of a name from the left.
struct ShapeClass {
  const TensorRule* rule = nullptr;
  std::optional<uint32_t> layer = {}, mtp = {}, expert = {};
  std::string_view leaf = {};
};

bool StartsAndEnds(std::string_view text, const Token& token) {
  return text.size() >= token.before.size() + token.after.size() &&
         text.starts_with(token.before) && text.ends_with(token.after);
}

// Matches one component that is not {**}; `ordinal` is its position among the numbers.
bool MatchComponent(const Token& token, std::string_view text, uint32_t ordinal,
                    ShapeClass& found) {
  switch (token.kind) {
    case Token::Kind::kLiteral:
      return text == token.before;
    case Token::Kind::kStar:
      return StartsAndEnds(text, token);
    case Token::Kind::kLeaf: {
      if (!text.starts_with(token.before)) return false;
      const WeightLeaf* leaf = FindLeaf(text.substr(token.before.size()));
      if (leaf != nullptr) found.leaf = leaf->name;
      return leaf != nullptr;
    }
    case Token::Kind::kLayer:
      found.layer = ordinal;
      break;
    case Token::Kind::kMtp:
      found.mtp = ordinal;
      break;
    case Token::Kind::kExpert:
      found.expert = ordinal;
      break;
    default:
      break;
  }
  return text == kNumber;
}

bool IsBareLeaf(const Token& token) {
  return token.kind == Token::Kind::kLeaf && token.before.empty();
}

// Matches the components of a shape; `ordinal` numbers precede them (in a prefix).
std::optional<ShapeClass> MatchRule(const CompiledRule& compiled,
                                    const std::vector<std::string_view>& parts, uint32_t ordinal) {
  const std::vector<Token>& tokens = compiled.tokens;
  ShapeClass found{.rule = compiled.rule};
  size_t part = 0;
  for (; part < tokens.size(); ++part) {
    const Token& token = tokens[part];
    if (part == parts.size()) {
      // The name ends before a final ".{W}".
      return part + 1 == tokens.size() && IsBareLeaf(token) ? std::optional(found) : std::nullopt;
    }
    if (token.kind == Token::Kind::kRest) {
      const bool more = parts[part].size() > token.before.size() || part + 1 < parts.size();
      if (!more || !parts[part].starts_with(token.before)) return std::nullopt;
      part = parts.size();
      break;
    }
    if (!MatchComponent(token, parts[part], ordinal, found)) return std::nullopt;
    if (parts[part] == kNumber) ++ordinal;
  }
  if (part != parts.size()) return std::nullopt;
  if (tokens.back().kind == Token::Kind::kRest || tokens.back().kind == Token::Kind::kStar) {
    if (const WeightLeaf* leaf = FindLeaf(parts.back())) found.leaf = leaf->name;
  }
  return found;
}

}  // namespace

struct FamilyMatcher::Impl {
  const Family* family = nullptr;
  uint32_t decoder_layers = 0;
  std::vector<CompiledRule> rules;
  TextMap<std::string, ShapeClass> shapes;
  // The name being classified: reused, so that a known shape needs no allocation.
  std::string shape;
  std::vector<std::string_view> numbers;

  // Sets `shape`. False if the name itself contains "#", which would be mistaken for a number.
  bool SetShape(std::string_view name);
  ShapeClass MatchShape() const;
};

// One pass over the name: characters are copied, and a component that turns out to be all digits is
// removed again and replaced. This is most of the cost of a name, hence the plain loop.
bool FamilyMatcher::Impl::SetShape(std::string_view name) {
  numbers.clear();
  shape.resize(name.size());
  char* const text = shape.data();
  size_t out = 0, start = 0;  // start of the component in `name`
  bool digits = true;
  for (size_t i = 0; i <= name.size(); ++i) {
    const char c = i < name.size() ? name[i] : '.';
    if (c == kNumber[0]) return false;
    if (c == '.') {
      if (digits && i > start) {
        numbers.push_back(name.substr(start, i - start));
        out -= i - start;
        text[out++] = kNumber[0];
      }
      start = i + 1;
      digits = true;
    } else {
      digits = digits && c >= '0' && c <= '9';
    }
    if (i < name.size()) text[out++] = c;
  }
  shape.resize(out);
  return true;
}

ShapeClass FamilyMatcher::Impl::MatchShape() const {
  std::string_view prefix;
  for (const std::string& candidate : family->prefixes) {
    // The longest prefix counts: "model.language_model." must not be taken for "model.".
    if (candidate.size() > prefix.size() && shape.starts_with(candidate)) prefix = candidate;
  }
  const std::vector<std::string_view> parts =
      Components(std::string_view(shape).substr(prefix.size()));
  // Rows are tried in the order of the table, so special names stand above general ones.
  for (const CompiledRule& rule : rules) {
    if (const std::optional<ShapeClass> found = MatchRule(rule, parts, 0)) return *found;
  }
  return {};
}

FamilyMatcher::FamilyMatcher(const Family& family, uint32_t decoder_layers)
    : impl_(std::make_unique<Impl>()) {
  impl_->family = &family;
  impl_->decoder_layers = decoder_layers;
  for (const TensorRule& rule : family.rules) {
    assert(RuleProblem(rule).empty());
    CompiledRule compiled{&rule, {}};
    for (const std::string_view part : Components(rule.pattern)) {
      compiled.tokens.push_back(ParseToken(part).value_or(Token{}));
    }
    impl_->rules.push_back(std::move(compiled));
  }
}

FamilyMatcher::~FamilyMatcher() = default;
FamilyMatcher::FamilyMatcher(FamilyMatcher&&) noexcept = default;

TensorClass FamilyMatcher::Classify(std::string_view name) {
  if (!impl_->SetShape(name)) return {};
  auto known = impl_->shapes.find(std::string_view(impl_->shape));
  if (known == impl_->shapes.end()) {
    known = impl_->shapes.emplace(impl_->shape, impl_->MatchShape()).first;
  }
  const ShapeClass& shape = known->second;
  const auto number = [this](std::optional<uint32_t> ordinal) {
    return ordinal ? ParseIndex(impl_->numbers[*ordinal]) : std::nullopt;
  };
  const uint32_t layers = impl_->decoder_layers;
  const bool mtp = shape.rule != nullptr && shape.rule->role == kMtpRole;
  TensorClass result{shape.rule, number(shape.layer), number(shape.expert), mtp, shape.leaf};
  // A number that cannot be an index makes the whole name unknown; without it the tensor would
  // count as one outside layers.
  if (shape.layer && !result.layer) return {};
  if (shape.expert && !result.expert) return {};
  if (shape.mtp) {
    const std::optional<uint32_t> block = number(shape.mtp);
    if (!block) return {};
    result.layer = layers + *block;
    result.mtp = true;
  } else if (layers > 0 && result.layer && *result.layer >= layers) {
    result.mtp = true;
  }
  return result;
}

}  // namespace moepack
