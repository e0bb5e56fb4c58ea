#include "libshard/recipe/recipe_llama.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>

#include "libshard/base/text.h"
#include "libshard/recipe/recipe_types.h"

namespace shard {
namespace {

// general.file_type of the recipes with rules of their own.
enum FileType : int {
  kQ4_0 = 2,
  kQ5_0 = 8,
  kQ2_K = 10,
  kQ3_K_S = 11,
  kQ3_K_M = 12,
  kQ3_K_L = 13,
  kQ4_K_S = 14,
  kQ4_K_M = 15,
  kQ5_K_M = 17,
  kIq4_Nl = 25,
  kIq4_Xs = 30,
  kMxfp4_Moe = 38,
};

enum class Category : uint8_t {
  kOutput,
  kEmbedding,
  kValue,
  kKey,
  kAttentionOutput,
  kGateOrUp,
  kDown,
  kOther,
};

std::string_view CategoryName(Category category) {
  constexpr std::array<std::string_view, 8> kNames = {
      "output", "embedding", "value", "key", "attention output", "gate, up", "down", "other"};
  return kNames[static_cast<size_t>(category)];
}

// The first piece that a name contains decides. Whatever holds values counts as values: fused
// query-key-value matrices and the key-value expansion of MLA too.
struct Piece {
  std::string_view text;
  Category category;
};
constexpr std::array kPieces = {
    Piece{"attn_qkv.weight", Category::kValue},
    Piece{"attn_kv_b.weight", Category::kValue},
    Piece{"attn_v.weight", Category::kValue},
    Piece{"attn_k.weight", Category::kKey},
    Piece{"attn_q.weight", Category::kOther},
    Piece{"attn_output.weight", Category::kAttentionOutput},
    Piece{"ffn_up", Category::kGateOrUp},
    Piece{"ffn_gate", Category::kGateOrUp},
    Piece{"ffn_down", Category::kDown},
};

Category CategoryOf(std::string_view name) {
  if (IsOutput(name)) return Category::kOutput;
  if (IsEmbedding(name)) return Category::kEmbedding;
  const auto found = std::find_if(kPieces.begin(), kPieces.end(), [&](const Piece& piece) {
    return name.find(piece.text) != std::string_view::npos;
  });
  return found == kPieces.end() ? Category::kOther : found->category;
}

// N of "blk.N."; none when the name does not start like that.
std::optional<uint64_t> LayerOf(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) return std::nullopt;
  name.remove_prefix(kBlock.size());
  const size_t end = name.find('.');
  if (end == std::string_view::npos) return std::nullopt;
  return ParseUint(name.substr(0, end));
}

// The layers that the medium mixes give more bits: an eighth at both ends, every third between.
bool MoreBits(uint64_t i, uint64_t n) {
  return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

// The value of `<architecture>.<key>` for layer 0.
std::optional<uint64_t> FirstOf(const GgufModel& model, std::string_view key) {
  const GgufValue* value = model.metadata.Find(Cat(model.architecture(), ".", key));
  if (value == nullptr) return std::nullopt;
  const auto numbers = value->AsUints();
  if (!numbers || numbers->empty()) return std::nullopt;
  return numbers->front();
}

}  // namespace

std::vector<size_t> LlamaOrder(const std::vector<GgufTensor>& tensors) {
  std::vector<std::optional<uint64_t>> layers;
  layers.reserve(tensors.size());
  for (const GgufTensor& tensor : tensors) layers.push_back(LayerOf(tensor.name));
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // An absent layer compares as less than any.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(layers[a], tensors[a].name) < std::tie(layers[b], tensors[b].name);
  });
  return order;
}

bool IsOutput(std::string_view name) { return name == "output.weight"; }

bool IsEmbedding(std::string_view name) {
  return name == "token_embd.weight" || name == "per_layer_token_embd.weight";
}

bool IsTied(const GgufModel& model) {
  return std::none_of(model.tensors.begin(), model.tensors.end(),
                      [](const GgufTensor& tensor) { return IsOutput(tensor.name); });
}

LlamaFacts FactsOf(const GgufModel& model) {
  LlamaFacts facts;
  // Far above any real model, low enough that the rules' products fit.
  constexpr uint64_t kMost = uint64_t{1} << 32;
  facts.layers = std::min(FirstOf(model, "block_count").value_or(0), kMost);
  facts.experts = std::max<uint64_t>(FirstOf(model, "expert_count").value_or(0), 1);
  const uint64_t heads = FirstOf(model, "attention.head_count").value_or(0);
  const uint64_t kv_heads = FirstOf(model, "attention.head_count_kv").value_or(heads);
  facts.gqa = kv_heads == 0 ? 0 : heads / kv_heads;
  facts.llama_70b = model.architecture() == "llama" && facts.layers == 80 && heads != kv_heads;
  facts.tied = IsTied(model);
  for (const GgufTensor& tensor : model.tensors) {
    facts.v_tensors += CategoryOf(tensor.name) == Category::kValue ? 1 : 0;
    facts.importance = facts.importance || tensor.importance != nullptr;
  }
  return facts;
}

LlamaRules::LlamaRules(const Recipe& recipe, const GgufModel& model)
    : file_type_(recipe.file_type), base_(KnownType(recipe.base)), facts_(FactsOf(model)) {}

Result<LlamaChoice> LlamaRules::Choose(const GgufTensor& tensor) {
  const Category category = CategoryOf(tensor.name);
  LlamaChoice choice{base_, CategoryName(category)};
  if (!IsQuantized(*base_)) return choice;
  if (category == Category::kOutput || (category == Category::kEmbedding && facts_.tied)) {
    return LlamaChoice{OutputType(tensor), CategoryName(Category::kOutput)};
  }
  if (file_type_ == kMxfp4_Moe) {
    // Experts, and the three-dimensional projections of MLA.
    const size_t dimensions = tensor.shape.size();
    const bool stacked = dimensions >= 3 && tensor.shape[dimensions - 3] > 1;
    if (!stacked) choice.type = KnownType("q8_0");
    return choice;
  }
  const bool feed_forward = category == Category::kDown || category == Category::kGateOrUp;
  if (feed_forward) SHARD_CHECK(CheckLayer(tensor));
  std::string_view type = base_->name;
  switch (category) {
    case Category::kValue:
      type = ValueType();
      break;
    case Category::kKey:
      if (facts_.experts == 8) type = "q8_0";
      break;
    case Category::kAttentionOutput:
      type = AttentionOutputType();
      break;
    case Category::kDown:
      type = DownType(tensor);
      break;
    default:
      break;
  }
  choice.type = KnownType(type);
  return choice;
}

const quant::Format* LlamaRules::OutputType(const GgufTensor& tensor) const {
  if (file_type_ == kMxfp4_Moe) return KnownType("q8_0");
  if (tensor.row_values() % base_->block_values != 0) return KnownType("q8_0");
  return base_->name == "q8_0" ? base_ : KnownType("q6_K");
}

std::string_view LlamaRules::ValueType() {
  const uint64_t i = v_seen_++;
  // Models of eight experts are taken for Mixtral, whose values cost little.
  if (facts_.experts == 8) return "q8_0";
  std::string_view type = base_->name;
  switch (file_type_) {
    case kQ2_K:
      type = facts_.gqa >= 4 ? "q4_K" : "q3_K";
      break;
    case kQ3_K_M:
      type = i < 2 ? "q5_K" : "q4_K";
      break;
    case kQ3_K_L:
      type = "q5_K";
      break;
    case kQ4_K_S:
      if (i < 4) type = "q5_K";
      break;
    case kQ4_K_M:
    case kQ5_K_M:
      if (MoreBits(i, facts_.v_tensors)) type = "q6_K";
      break;
    case kIq4_Nl:
    case kIq4_Xs:
      if (facts_.gqa >= 4) type = "q5_K";
      break;
    default:
      break;
  }
  return facts_.llama_70b && (type == "q3_K" || type == "q4_K") ? "q5_K" : type;
}

std::string_view LlamaRules::DownType(const GgufTensor& tensor) {
  const uint64_t seen = down_seen_++;
  // Dense models count; with experts the name says the layer.
  const uint64_t i = facts_.experts > 1 ? *LayerOf(tensor.name) : seen;
  const uint64_t n = facts_.layers;
  const bool first_eighth = i < n / 8;
  const std::string_view base = base_->name;
  switch (file_type_) {
    case kQ2_K:
      return "q3_K";
    case kQ3_K_M:
      return i < n / 16 ? "q5_K" : "q4_K";
    case kQ3_K_L:
      return "q5_K";
    case kQ4_K_S:
      return first_eighth ? "q5_K" : base;
    case kQ4_K_M:
    case kQ5_K_M:
      return MoreBits(i, n) ? "q6_K" : base;
    case kIq4_Nl:
    case kIq4_Xs:
      return first_eighth && !facts_.importance ? "q5_K" : base;
    case kQ4_0:
      return first_eighth && facts_.importance ? "q4_1" : base;
    case kQ5_0:
      return first_eighth && facts_.importance ? "q5_1" : base;
    default:
      return base;
  }
}

std::string_view LlamaRules::AttentionOutputType() const {
  const bool eight = facts_.experts == 8;
  switch (file_type_) {
    case kQ2_K:
      return eight ? "q5_K" : "q3_K";
    case kQ3_K_M:
      return eight ? "q5_K" : "q4_K";
    case kQ3_K_L:
      return eight ? base_->name : "q5_K";
    case kQ3_K_S:
    case kQ4_K_S:
    case kQ4_K_M:
    case kIq4_Nl:
    case kIq4_Xs:
      return eight ? "q5_K" : base_->name;
    default:
      return base_->name;
  }
}

Status LlamaRules::CheckLayer(const GgufTensor& tensor) const {
  if (facts_.experts <= 1) return Ok();
  const std::optional<uint64_t> layer = LayerOf(tensor.name);
  if (layer && *layer < facts_.layers) return Ok();
  return Error{Code::kUnsupported, Cat("tensor ", Quoted(tensor.name),
                                       ": expected a name that starts with blk.N., N below ",
                                       facts_.layers, " as block_count says")};
}

}  // namespace shard
