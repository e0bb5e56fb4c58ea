// Matches tensor names against the rows of a family.
//
// The work is done once per shape of name: "model.layers.3.mlp.experts.17.up_proj.weight" has the
// shape "model.layers.#.mlp.experts.#.up_proj.weight", which it shares with thousands of others.
// What the rows say about a shape is cached together with the positions of its numbers, so a name
// usually costs writing its shape into a buffer and one hash look-up.
#include "libshard/model/family_match.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"

namespace moepack {
namespace {

// The last parts of the names of a linear layer's tensors, in all formats we have seen.
constexpr WeightLeaf kWeightLeaves[] = {
    {"weight", LeafUse::kValues},
    {"bias", LeafUse::kValues},
    // FP8 with block scales (DeepSeek, Qwen, GLM, MiniMax), per-tensor scales, activations
    {"weight_scale_inv", LeafUse::kCompanion},
    {"weight_scale", LeafUse::kCompanion},
    {"input_scale", LeafUse::kCompanion, false},
    {"output_scale", LeafUse::kCompanion, false},
    {"activation_scale", LeafUse::kCompanion, false},
    {"scale", LeafUse::kCompanion},
    {"scale_inv", LeafUse::kCompanion},
    {"qscale_weight", LeafUse::kCompanion},
    {"qscale_act", LeafUse::kCompanion, false},
    // scales of the key/value cache, stored beside the projections
    {"k_scale", LeafUse::kCompanion, false},
    {"v_scale", LeafUse::kCompanion, false},
    {"q_scale", LeafUse::kCompanion, false},
    {"prob_scale", LeafUse::kCompanion, false},
    // NVFP4: block scales, one scale for the tensor, and ModelOpt's AWQ
    {"weight_scale_2", LeafUse::kCompanion},
    {"weight_global_scale", LeafUse::kCompanion},
    {"input_global_scale", LeafUse::kCompanion, false},
    {"pre_quant_scale", LeafUse::kCompanion},
    // compressed-tensors
    {"weight_packed", LeafUse::kPacked},
    {"weight_shape", LeafUse::kCompanion},
    {"weight_zero_point", LeafUse::kCompanion},
    {"input_zero_point", LeafUse::kCompanion, false},
    {"weight_g_idx", LeafUse::kCompanion},
    // MLX: scales and zero points ("biases" is not "bias")
    {"scales", LeafUse::kCompanion},
    {"biases", LeafUse::kCompanion},
    // GPTQ, AWQ
    {"qweight", LeafUse::kPacked},
    {"qzeros", LeafUse::kCompanion},
    {"qscales", LeafUse::kCompanion},
    {"g_idx", LeafUse::kCompanion},
    // MXFP4 as gpt-oss stores it, beside "scales"
    {"blocks", LeafUse::kPacked},
    // Paddle's FP8, beside "weight_scale"; one byte per parameter
    {"quant_weight", LeafUse::kValues},
};

constexpr std::pair<std::string_view, Token::Kind> kTokens[] = {
    {"{L}", Token::Kind::kLayer},     {"{M}", Token::Kind::kMtp},  {"{E}", Token::Kind::kExpert},
    {"{N}", Token::Kind::kAnyNumber}, {"{W}", Token::Kind::kLeaf}, {"{*}", Token::Kind::kStar},
    {"{**}", Token::Kind::kRest},
};

bool HasBrace(std::string_view text) { return text.find_first_of("{}") != std::string_view::npos; }

// Returns what is wrong with one component of a pattern; "" if nothing is.
std::string_view TokenProblem(const Token& token, bool last) {
  if (HasBrace(token.after)) return "more than one {} in one component";
  switch (token.kind) {
    case Token::Kind::kLiteral:
      if (token.before.empty()) return "an empty component";
      // Shapes have "#" for every number, so a literal one would never match.
      return IsNumber(token.before) ? "a literal number (write {N})" : "";
    case Token::Kind::kStar:
      return "";
    case Token::Kind::kRest:
      return last && token.after.empty() ? "" : "{**} is not at the end";
    case Token::Kind::kLeaf:
      return last && token.after.empty() ? "" : "{W} is not at the end";
    default:
      return token.before.empty() && token.after.empty() ? "" : "text beside a number token";
  }
}

}  // namespace

std::span<const WeightLeaf> WeightLeaves() { return kWeightLeaves; }

const WeightLeaf* FindLeaf(std::string_view name) {
  for (const WeightLeaf& leaf : kWeightLeaves) {
    if (leaf.name == name) return &leaf;
  }
  return nullptr;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string_view> Components(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t dot = text.find('.');
    parts.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    text.remove_prefix(dot + 1);
  }
}

std::optional<Token> ParseToken(std::string_view text) {
  const size_t open = text.find('{');
  if (open == std::string_view::npos) {
    if (text.find('}') != std::string_view::npos) return std::nullopt;
    return Token{Token::Kind::kLiteral, text, {}};
  }
  const size_t close = text.find('}', open);
  if (close == std::string_view::npos) return std::nullopt;
  for (const auto& [spelling, kind] : kTokens) {
    if (text.substr(open, close + 1 - open) == spelling) {
      return Token{kind, text.substr(0, open), text.substr(close + 1)};
    }
  }
  return std::nullopt;
}

std::string_view PartName(Part part) {
  constexpr std::array<std::string_view, 4> kNames = {"trunk", "router", "shared", "expert"};
  return kNames[static_cast<size_t>(part)];
}

LeafUse UseOfLeaf(std::string_view leaf) {
  const WeightLeaf* found = FindLeaf(leaf);
  return found == nullptr ? LeafUse::kValues : found->use;
}

bool AffectsNumbers(std::string_view leaf) {
  const WeightLeaf* found = FindLeaf(leaf);
  return found == nullptr || found->affects_numbers;
}

std::string_view LeafOf(const TensorRule& rule, std::string_view matched) {
  if (!matched.empty()) return matched;
  const std::string_view pattern = rule.pattern;
  const WeightLeaf* found = FindLeaf(pattern.substr(pattern.rfind('.') + 1));
  return found == nullptr ? std::string_view() : found->name;
}

std::string RuleProblem(const TensorRule& rule) {
  int layers = 0, experts = 0;
  const std::vector<std::string_view> parts = Components(rule.pattern);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::optional<Token> token = ParseToken(parts[i]);
    if (!token) return "an unknown {} token";
    const std::string_view problem = TokenProblem(*token, i + 1 == parts.size());
    if (!problem.empty()) return std::string(problem);
    if (token->kind == Token::Kind::kLayer || token->kind == Token::Kind::kMtp) ++layers;
    if (token->kind == Token::Kind::kExpert) ++experts;
  }
  const bool axis = rule.expert_axis.has_value();
  if (layers > 1 || experts > 1) return "more than one layer or expert number";
  if (experts == 1 && axis) return "both {E} and an expert axis";
  if (experts == 1 && rule.part != Part::kExpert) return "{E} in a row that is not of part expert";
  if (rule.part == Part::kExpert && experts == 0 && !axis) return "an expert without {E} or axis";
  if (layers == 0 && (axis || experts == 1 || rule.holds_expert_ids)) return "experts without {L}";
  if (rule.folded && !axis) return "a folded axis without an expert axis";
  return "";
}

namespace {

// How MLX spells the experts of a layer, and bitsandbytes the parts of a weight.
struct Spelling {
  std::string_view part, words;
};
constexpr Spelling kMlxExperts[] = {
    {".switch_mlp.", " (switch_mlp is MLX's name for the experts of a layer)"},
    {".switch_glu.", " (switch_glu is MLX's name for the experts of a layer)"}};
constexpr Spelling kOtherParts[] = {
    {".absmax", " (absmax is bitsandbytes' name for the scales of a weight)"},
    {".nested_absmax", " (nested_absmax is bitsandbytes' name for the scales of scales)"},
    {".nested_quant_map", " (nested_quant_map is bitsandbytes' name for the values of scales)"},
    {".quant_map", " (quant_map is bitsandbytes' name for the values of codes)"},
    {".quant_state.bitsandbytes__", " (bitsandbytes' description of a weight)"},
    {".SCB", " (SCB is bitsandbytes' name for the scales of a weight)"}};

const Spelling* FindSpelling(std::span<const Spelling> spellings, std::string_view tensor) {
  const auto found = std::find_if(
      spellings.begin(), spellings.end(),
      [&](const Spelling& spelling) { return tensor.find(spelling.part) != tensor.npos; });
  return found == spellings.end() ? nullptr : &*found;
}

}  // namespace

bool IsOfChunks(const TensorRule* rule) { return rule != nullptr && rule->role == "chunk_experts"; }

bool HasMlxExperts(std::string_view tensor) { return FindSpelling(kMlxExperts, tensor) != nullptr; }

std::string_view WhoseName(std::string_view tensor) {
  for (const std::span<const Spelling> spellings :
       {std::span<const Spelling>(kMlxExperts), std::span<const Spelling>(kOtherParts)}) {
    if (const Spelling* found = FindSpelling(spellings, tensor)) return found->words;
  }
  return tensor.ends_with(".biases") ? " (MLX's quantization has scales and biases)"
                                     : std::string_view();
}

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

Result<std::string> RenumberExpert(FamilyMatcher& matcher, const std::string& name, uint32_t id) {
  std::vector<std::string> parts = Split(name, '.');
  const auto number = std::find_if(parts.rbegin(), parts.rend(), [](const std::string& part) {
    return ParseUint(part).has_value();
  });
  if (number != parts.rend()) *number = std::to_string(id);
  std::string renumbered = Join(parts, ".");
  const TensorClass before = matcher.Classify(name);
  const TensorClass after = matcher.Classify(renumbered);
  if (after.rule != nullptr && after.rule == before.rule && after.layer == before.layer &&
      after.expert == id) {
    return renumbered;
  }
  return Error{Code::kUnsupported, Cat("tensor ", Quoted(name),
                                       ": expected the expert id as the "
                                       "last number of the name, found another number there")};
}

}  // namespace moepack
