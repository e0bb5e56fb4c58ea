// What a user wants otherwise than the recipe: types by regular expression, for the output and the
// embedding, by part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/regex.h"
#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/recipe.h"

namespace moepack {

// One rule. The first that matches a tensor decides.
struct TypeOverride {
  enum class Kind : uint8_t { kRegex, kOutput, kEmbedding, kExperts, kTrunk };
  std::string option;      // --trunk-type, --tensor-type
  std::string expression;  // of --tensor-type: ffn_down=q6_K
  // As the user knows it: --trunk-type, --tensor-type "ffn_down=q6_K".
  std::string Label() const;
  Kind kind = Kind::kRegex;
  const quant::Format* type = nullptr;
  std::optional<Regex> regex = {};  // for kRegex
  bool used = false;                // matched a tensor, whether it decided or not
};

class TypeOverrides {
 public:
  // In order of priority: RecipeOptions::tensor_types as given, output and embedding type, types by
  // part. kInvalidArgument names the rule at fault.
  static Result<TypeOverrides> Make(const RecipeOptions& options, const GgufModel& model);

  // The rule that decides about `tensor`, null when none does. Tensors that no recipe may change
  // are only compared, so that a rule asking for what they are is not useless. kInvalidArgument
  // names a rule whose expression takes too long.
  Result<const TypeOverride*> Find(const GgufTensor& tensor);

  // kInvalidArgument for a rule that matched none of the tensors given to Find.
  Status CheckAllUsed() const;

 private:
  Result<bool> Matches(const TypeOverride& rule, const GgufTensor& tensor) const;

  std::vector<TypeOverride> rules_;
  bool embedding_is_output_ = false;  // output_type goes to token_embd.weight
};

// The rules of texts in llama.cpp's and ik_llama.cpp's spellings: "REGEX=TYPE", many separated by
// commas (outside of brackets and braces) or white space, comments from # to the end of the line.
// Patterns are put in lower case, as tensor names are.
Result<std::vector<TypeOverride>> ParseTensorTypes(const std::vector<std::string>& texts);

// The rules of one such text as they stand there, without comments.
std::vector<std::string> SplitTensorTypes(std::string_view text);

}  // namespace moepack
