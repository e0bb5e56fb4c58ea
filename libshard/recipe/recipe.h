// Which type every tensor gets: llama-quantize's recipes by name, our profiles, and overrides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"

namespace moepack {

struct RecipeOptions {
  std::string recipe;  // a name of AllRecipes(), "" with `pure`
  std::string pure;    // one type for every 2-D and packed tensor, "" for none
  std::string trunk_type, experts_type, overlay_type;  // overrides by part, "" for none
  std::string output_type, embedding_type;             // output.weight, token_embd.weight
  std::vector<std::string>
      tensor_types;  // "REGEX=TYPE", several joined by commas or newlines, # comments
  bool allow_requantize = false;
  // Where numbers of the source fit into the chosen type as they are (int4 in q4_0, MXFP4 in
  // mxfp4), keep them; false: decode and encode them like all others.
  bool repack = true;
};

// Who decided about the type of a tensor. The words are those of docs/quantization.md.
struct TypeChoice {
  std::string rule;    // "keeps its type", "--experts-type", "recipe", ...
  std::string detail;  // what of the rule: "--tensor-type \"ffn_down=q6_K\"", "down: more bits"
  const quant::Format* wanted = nullptr;  // before the fallback
};

struct RecipeResult {
  // Of the tensors whose type is not what the recipe asked for: name, wanted, got, why.
  struct Fallback {
    std::string tensor, wanted, got, reason;
  };
  std::vector<Fallback> fallbacks;
  std::vector<TypeChoice> choices;  // same order as the tensors
  std::vector<const quant::Format*>
      overlay_types;  // same order as the tensors; null: as the tensor
  int file_type = -1;
};

// Sets `type` of every tensor of `model`, general.file_type and general.quantization_version.
// Decides by the whole model: call it before anything is cut. kInvalidArgument for an unknown
// recipe or type, a bad regular expression, an override that matches nothing; kUnsupported for a
// recipe of llama-quantize that this version does not have, a source that is quantized already
// (without allow_requantize) or cannot be decoded, and names that a recipe's rules cannot read.
Result<RecipeResult> ApplyRecipe(const RecipeOptions& options, GgufModel& model);

}  // namespace moepack
