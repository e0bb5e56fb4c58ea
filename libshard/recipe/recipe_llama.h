// How llama-quantize chooses the type of every tensor: by the rules in the rows of AllRecipes(),
// and by exceptions that apply to all recipes. Source: llama.cpp v0.5.0, src/llama-quant.cpp;
// docs/quantization.md has them as tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/llama_conditions.h"
#include "libshard/recipe/recipe.h"
#include "libshard/recipe/recipe_list.h"

namespace moepack {

// Returns the indices of the tensors in the order in which the rules count them: tensors outside
// blocks first, then block by block, and by name within a block. llama-quantize sorts its map of
// tensors like this (weight_name_comparer).
std::vector<size_t> LlamaOrder(const std::vector<GgufTensor>& tensors);

bool IsOutput(std::string_view name);     // the matrix that produces the logits
bool IsEmbedding(std::string_view name);  // tables of token embeddings
// True for a model without an output matrix, which uses its embedding as one.
bool IsTied(const GgufModel& model);

// `importance`: there will be importance, even if no tensor has any yet.
LlamaFacts FactsOf(const GgufModel& model, bool importance = false);

struct LlamaChoice {
  const quant::Format* type = nullptr;
  std::string_view category;  // as docs/quantization.md calls it: "down", "attention output"
};

// Chooses types one tensor at a time, because some rules count tensors.
class LlamaRules {
 public:
  // What a matrix is for, in the order of docs/quantization.md.
  enum class Category : uint8_t {
    kOutput,
    kEmbedding,
    kValue,
    kKey,
    kQuery,
    kAttentionOutput,
    kGateOrUp,
    kDown,
    kOther,
  };

  // Borrows `recipe`. REQUIRES: it is not a profile.
  LlamaRules(const Recipe& recipe, const GgufModel& model, bool importance);

  // Returns the type of the next tensor in LlamaOrder, before the fallback. Tensors decided by an
  // override are never passed in, so they are not counted, as in llama-quantize. kUnsupported for a
  // feed-forward matrix whose name does not give a layer below block_count.
  Result<LlamaChoice> Choose(const GgufTensor& tensor);
  const quant::Format* base() const { return base_; }

 private:
  const quant::Format* OutputType(const GgufTensor& tensor) const;
  // The type that `rule` gives matrix `i` of `n`.
  std::string_view TypeBy(const RecipeRule& rule, uint64_t i, uint64_t n) const;
  const RecipeRule& RuleFor(const RecipeRule& rule, const std::optional<RecipeRule>& plain) const;
  // The layer of a feed-forward matrix; `seen` counts those of its kind.
  uint64_t LayerFor(const GgufTensor& tensor, uint64_t& seen) const;
  // The type of a matrix that is not the output.
  std::string_view TypeInside(const GgufTensor& tensor, Category category);
  // `type`, which a recipe's rule chose, or what an exception makes of it.
  std::string_view WithExceptions(Category category, std::string_view type) const;
  std::string_view ValueType();
  std::string_view GateOrUpType(const GgufTensor& tensor);
  std::string_view DownType(const GgufTensor& tensor);
  Status CheckLayer(const GgufTensor& tensor) const;

  const Recipe& recipe_;
  const quant::Format* base_;
  LlamaFacts facts_;
  uint64_t v_seen_ = 0, gate_seen_ = 0, up_seen_ = 0, down_seen_ = 0;
};

}  // namespace moepack
