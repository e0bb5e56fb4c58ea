#include "libshard/model/family_pattern.h"

#include <array>
#include <utility>

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

// How MLX spells the experts of a layer.
struct MlxSpelling {
  std::string_view part, words;
};
constexpr MlxSpelling kMlxExperts[] = {
    {".switch_mlp.", " (switch_mlp is MLX's name for the experts of a layer)"},
    {".switch_glu.", " (switch_glu is MLX's name for the experts of a layer)"}};

const MlxSpelling* FindMlxExperts(std::string_view tensor) {
  for (const MlxSpelling& spelling : kMlxExperts) {
    if (tensor.find(spelling.part) != tensor.npos) return &spelling;
  }
  return nullptr;
}

}  // namespace

bool HasMlxExperts(std::string_view tensor) { return FindMlxExperts(tensor) != nullptr; }

std::string_view WhoseName(std::string_view tensor) {
  if (const MlxSpelling* mlx = FindMlxExperts(tensor)) return mlx->words;
  return tensor.ends_with(".biases") ? " (MLX's quantization has scales and biases)"
                                     : std::string_view();
}

}  // namespace moepack
