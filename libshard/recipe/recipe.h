// Chooses a type for every tensor, by llama-quantize's recipes, our own profiles, and overrides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/recipe_list.h"

namespace moepack {

struct RecipeOptions {
  std::string recipe;  // a name of AllRecipes(); "" with `pure`
  std::string pure;    // one type for every 2-D and packed tensor; "" for none
  std::string trunk_type, experts_type, overlay_type;  // overrides by part, "" for none
  std::string output_type, embedding_type;             // output.weight, token_embd.weight
  std::vector<std::string>
      tensor_types;  // "REGEX=TYPE", several joined by commas or newlines, # comments
  bool allow_requantize = false;
  // Every matrix will have importance, although the model has none yet: a calibration measures it.
  bool measured_later = false;
  // Keeps the source's numbers if they fit in the chosen type unchanged (int4 in q4_0, MXFP4 in
  // mxfp4). If false, they are decoded and encoded like all others.
  bool repack = true;
};

// Says which rule decided the type of a tensor, in the words of docs/quantization.md.
struct TypeChoice {
  std::string rule;    // "keeps its type", "--experts-type", "recipe", ...
  std::string detail;  // more about the rule: "ffn_down=q6_K", "down: another type"
  const quant::Format* wanted = nullptr;  // before the fallback
};

struct RecipeResult {
  // A tensor whose type is not what the recipe asked for.
  struct Fallback {
    std::string tensor, wanted, got, reason;
  };
  std::vector<Fallback> fallbacks;
  std::vector<TypeChoice> choices;  // in the same order as the tensors
  std::vector<const quant::Format*>
      overlay_types;  // in the order of the tensors; null: the same type as the tensor
};

// Sets `type` of every tensor of `model`, general.file_type and general.quantization_version. The
// rules count layers and experts of the whole model, so call it before anything is cut. Returns
// kInvalidArgument for an unknown recipe or type, a bad regular expression, or an override that
// matches nothing; kUnsupported for a recipe of llama-quantize that this version lacks, a source
// that is already quantized (without allow_requantize) or cannot be decoded, and names that a
// recipe's rules cannot parse.
Result<RecipeResult> ApplyRecipe(const RecipeOptions& options, GgufModel& model);

// Refuses what llama-quantize refuses: types with so few bits that the result is useless without
// importance. `type`: null for the tensor's own. `rule` says who asks for it, "--overlay-type";
// `recipe` is the name of a Recipe, or "". kInvalidArgument, with a hint that says what helps.
Status CheckImportance(const GgufModel& model, const GgufTensor& tensor, const quant::Format* type,
                       const std::string& rule, std::string_view recipe);

// Our own recipes, the profiles: which of its types a profile gives to a tensor.

// Returns the tensor's column of the profiles' table in docs/quantization.md: "trunk", "gate, up".
std::string ProfileColumn(const ProfileTypes& profile, const GgufTensor& tensor);

// The type of the tensor, before the fallback.
const quant::Format* ProfileType(const ProfileTypes& profile, const GgufTensor& tensor);

}  // namespace moepack
