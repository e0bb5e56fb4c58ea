// Types that the user sets instead of the recipe's: by regular expression, for output and
// embedding, or by part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/regex.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/recipe.h"

namespace moepack {

// One rule. The first that matches a tensor decides.
struct TypeOverride {
  enum class Kind : uint8_t { kRegex, kOutput, kEmbedding, kExperts, kTrunk };
  std::string option;      // --trunk-type, --tensor-type
  std::string expression;  // of --tensor-type: ffn_down=q6_K
  // The rule as the user wrote it: --trunk-type, --tensor-type "ffn_down=q6_K".
  std::string Label() const;
  Kind kind = Kind::kRegex;
  const quant::Format* type = nullptr;
  std::optional<Regex> regex = {};  // for kRegex
  bool used = false;                // whether it matched a tensor, even if another rule decided
  bool decided = false;             // whether it was the first that matched some tensor
};

class TypeOverrides {
 public:
  // Makes the rules in order of priority: RecipeOptions::tensor_types as given, then output and
  // embedding type, then types by part. kInvalidArgument names the rule at fault.
  static Result<TypeOverrides> Make(const RecipeOptions& options, const GgufModel& model);

  // Returns the rule that decides on `tensor`; null if none does. If no recipe may change a tensor,
  // a rule that asks for its present type still counts as used. kInvalidArgument names a rule whose
  // expression takes too long.
  Result<const TypeOverride*> Find(const GgufTensor& tensor);

  // Returns kInvalidArgument for a rule that matched none of the tensors given to Find.
  Status CheckAllUsed() const;
  // Says which rules decided on none of them, because earlier rules matched first; "" if none.
  std::string HiddenRules() const;

 private:
  Result<bool> Matches(const TypeOverride& rule, const GgufTensor& tensor) const;

  std::vector<TypeOverride> rules_;
  bool embedding_is_output_ = false;  // output_type applies to token_embd.weight
};

// Parses rules in llama.cpp's and ik_llama.cpp's spellings: "REGEX=TYPE", separated by commas
// (outside brackets and braces) or white space, with comments from # to the end of the line.
// Patterns are converted to lower case, like tensor names.
Result<std::vector<TypeOverride>> ParseTensorTypes(const std::vector<std::string>& texts);

// Splits such a text into its rules, unchanged but without comments.
std::vector<std::string> SplitTensorTypes(std::string_view text);

}  // namespace moepack
