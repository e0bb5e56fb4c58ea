#include "libshard/recipe/recipe_llama.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>

#include "libshard/base/text/text.h"
#include "libshard/model/gguf_keys.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

using Category = LlamaRules::Category;

std::string_view CategoryName(Category category) {
  constexpr std::array<std::string_view, 9> kNames = {"output",   "embedding", "value",
                                                      "key",      "query",     "attention output",
                                                      "gate, up", "down",      "other"};
  return kNames[static_cast<size_t>(category)];
}

// The first piece that a name contains determines its category. Everything that holds attention
// values counts as values, including fused query-key-value matrices and MLA's key-value expansion.
struct Piece {
  std::string_view text;
  Category category;
};
constexpr std::array kPieces = {
    Piece{"attn_qkv.weight", Category::kValue},
    Piece{"attn_kv_b.weight", Category::kValue},
    Piece{"attn_v.weight", Category::kValue},
    Piece{"attn_k.weight", Category::kKey},
    Piece{"attn_q.weight", Category::kQuery},
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

// N of "blk.N."; no value if the name does not start like that.
std::optional<uint64_t> LayerOf(std::string_view name) {
  const std::optional<BlockName> block = ParseBlockName(name);
  return block ? std::optional(block->block) : std::nullopt;
}

// What replaces the type that a recipe's rule gives, whatever the recipe. The first row that
// applies wins.
struct LlamaException {
  Category category;
  bool below_three_bits;  // of recipes like this
  LlamaCondition where;
  std::string_view from;  // only this type; "" for any
  std::string_view type;
};
constexpr std::array kExceptions = {
    LlamaException{Category::kValue, false, when::kEightExperts, "", "q8_0"},
    LlamaException{Category::kValue, false, when::kLlama70b, "q3_K", "q5_K"},
    LlamaException{Category::kValue, false, when::kLlama70b, "q4_K", "q5_K"},
    LlamaException{Category::kKey, false, when::kEightExperts, "", "q8_0"},
    LlamaException{Category::kKey, true, when::kEightExperts, "", "q4_K"},
};

// The value of `<architecture>.<key>` for layer 0.
std::optional<uint64_t> FirstOf(const GgufModel& model, std::string_view key) {
  const GgufValue* value = model.metadata.Find(Cat(model.architecture(), ".", key));
  if (value == nullptr) return std::nullopt;
  const auto numbers = value->AsUints();
  if (!numbers || numbers->empty()) return std::nullopt;
  return numbers->front();
}

}  // namespace

// The rules count matrices as they come, so the order is that of llama.cpp's loader: by block, then
// by name.
std::vector<size_t> LlamaOrder(const std::vector<GgufTensor>& tensors) {
  std::vector<std::optional<uint64_t>> layers;
  layers.reserve(tensors.size());
  for (const GgufTensor& tensor : tensors) layers.push_back(LayerOf(tensor.name));
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // std::nullopt compares as less than any layer, which puts tensors outside blocks first.
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

LlamaFacts FactsOf(const GgufModel& model, bool importance) {
  LlamaFacts facts;
  facts.importance = importance;
  facts.architecture = model.architecture();
  // A bound far above any real model, but low enough that products in the rules cannot overflow.
  constexpr uint64_t kMost = uint64_t{1} << 32;
  facts.layers = std::min(FirstOf(model, "block_count").value_or(0), kMost);
  facts.expert_count = std::max<uint64_t>(FirstOf(model, "expert_count").value_or(0), 1);
  facts.heads = FirstOf(model, "attention.head_count").value_or(0);
  facts.kv_heads = FirstOf(model, "attention.head_count_kv").value_or(facts.heads);
  facts.tied = IsTied(model);
  for (const GgufTensor& tensor : model.tensors) {
    facts.v_tensors += CategoryOf(tensor.name) == Category::kValue ? 1 : 0;
    facts.importance = facts.importance || tensor.importance != nullptr;
  }
  return facts;
}

LlamaRules::LlamaRules(const Recipe& recipe, const GgufModel& model, bool importance)
    : recipe_(recipe), base_(KnownType(recipe.base)), facts_(FactsOf(model, importance)) {}

Result<LlamaChoice> LlamaRules::Choose(const GgufTensor& tensor) {
  const Category category = CategoryOf(tensor.name);
  LlamaChoice choice{base_, CategoryName(category)};
  if (!IsQuantized(*base_)) return choice;
  if (category == Category::kOutput || (category == Category::kEmbedding && facts_.tied)) {
    return LlamaChoice{OutputType(tensor), CategoryName(Category::kOutput)};
  }
  if (!recipe_.not_stacked.empty()) {
    // True for experts and for MLA's three-dimensional projections.
    const size_t dimensions = tensor.shape.size();
    const bool stacked = dimensions >= 3 && tensor.shape[dimensions - 3] > 1;
    if (!stacked) choice.type = KnownType(recipe_.not_stacked);
    return choice;
  }
  const bool feed_forward = category == Category::kDown || category == Category::kGateOrUp;
  if (feed_forward && !recipe_.below_three_bits) SHARD_CHECK(CheckLayer(tensor));
  choice.type = KnownType(TypeInside(tensor, category));
  return choice;
}

std::string_view LlamaRules::TypeInside(const GgufTensor& tensor, Category category) {
  switch (category) {
    case Category::kEmbedding:
      return recipe_.embedding.empty() ? base_->name : recipe_.embedding;
    case Category::kValue:
      return ValueType();
    case Category::kKey:
      return WithExceptions(category, TypeBy(recipe_.key, 0, 0));
    case Category::kQuery:
      return TypeBy(recipe_.query, 0, 0);
    case Category::kAttentionOutput:
      return TypeBy(recipe_.attention_output, 0, 0);
    case Category::kGateOrUp:
      return GateOrUpType(tensor);
    case Category::kDown:
      return DownType(tensor);
    default:
      return base_->name;
  }
}

const quant::Format* LlamaRules::OutputType(const GgufTensor& tensor) const {
  if (!recipe_.not_stacked.empty()) return KnownType(recipe_.not_stacked);
  // As in llama-quantize, the output matrix gets 8 bits here, not the usual substitute.
  if (tensor.row_values() % base_->block_values != 0) return KnownType("q8_0");
  return base_->name == "q8_0" ? base_ : KnownType(recipe_.output);
}

std::string_view LlamaRules::TypeBy(const RecipeRule& rule, uint64_t i, uint64_t n) const {
  const bool holds = rule.where.holds({facts_, i, n});
  const std::string_view type = holds ? rule.type : rule.otherwise;
  return type.empty() ? base_->name : type;
}

std::string_view LlamaRules::WithExceptions(Category category, std::string_view type) const {
  const auto found =
      std::find_if(kExceptions.begin(), kExceptions.end(), [&](const LlamaException& exception) {
        return exception.category == category &&
               exception.below_three_bits == recipe_.below_three_bits &&
               (exception.from.empty() || exception.from == type) &&
               exception.where.holds({facts_});
      });
  return found == kExceptions.end() ? type : found->type;
}

std::string_view LlamaRules::ValueType() {
  const uint64_t i = v_seen_++;
  const RecipeRule& rule = RuleFor(recipe_.value, recipe_.value_plain);
  return WithExceptions(Category::kValue, TypeBy(rule, i, facts_.v_tensors));
}

const RecipeRule& LlamaRules::RuleFor(const RecipeRule& rule,
                                      const std::optional<RecipeRule>& plain) const {
  return plain && !facts_.importance ? *plain : rule;
}

// Dense models are counted tensor by tensor. With experts, llama-quantize reads the layer from the
// name, because matrices of experts need not be consecutive (layer_info in src/llama-quant.cpp).
uint64_t LlamaRules::LayerFor(const GgufTensor& tensor, uint64_t& seen) const {
  const uint64_t counted = seen++;
  const bool by_name = facts_.expert_count > 1 && !recipe_.below_three_bits;
  return by_name ? *LayerOf(tensor.name) : counted;
}

std::string_view LlamaRules::GateOrUpType(const GgufTensor& tensor) {
  const bool up = tensor.name.find("ffn_up") != std::string::npos;
  return TypeBy(recipe_.gate_up, LayerFor(tensor, up ? up_seen_ : gate_seen_), facts_.layers);
}

std::string_view LlamaRules::DownType(const GgufTensor& tensor) {
  const RecipeRule& rule = RuleFor(recipe_.down, recipe_.down_plain);
  return TypeBy(rule, LayerFor(tensor, down_seen_), facts_.layers);
}

Status LlamaRules::CheckLayer(const GgufTensor& tensor) const {
  if (facts_.expert_count <= 1) return Ok();
  const std::optional<uint64_t> layer = LayerOf(tensor.name);
  if (layer && *layer < facts_.layers) return Ok();
  return Error{Code::kUnsupported, Cat("tensor ", Quoted(tensor.name),
                                       ": expected a name that starts with blk.N., N below ",
                                       facts_.layers, " as block_count says")};
}

}  // namespace moepack
