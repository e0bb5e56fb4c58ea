// Shared by all recipes: which tensors may change, which types can be written, and which type
// replaces one that does not fit the rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/quantize.h"
#include "libshard/recipe/recipe.h"

namespace moepack {

// True if a recipe may change the tensor: it is a matrix (leading dimensions of 1 do not count),
// its name ends in "weight" and is not on llama-quantize's list of unchanged tensors, and it is
// neither fixed nor a literal.
bool MayChange(const GgufTensor& tensor);
// Why MayChange is false, as a clause; "" if it is true.
std::string_view ReasonToKeep(const GgufTensor& tensor);
// The type of a tensor that no recipe changes: F32 if it is fixed, otherwise the stored type. For
// stored types that GGUF lacks (FP8, packed integers) it is F32, the only one that loses nothing.
const quant::Format* KeptType(const GgufTensor& tensor);

// ", a type of ik_llama.cpp" after the name of a type that is not here; "" if it is not known.
std::string OwnerOfType(std::string_view name);

// Finds the type `name`, ignoring case. kInvalidArgument, with the list of types that can be
// written, if there is none or it cannot be encoded; `what` names the option ("--trunk-type").
Result<const quant::Format*> ParseTargetType(const std::string& what, std::string_view name);
// The type of that name. REQUIRES: `name` is one of quant::AllFormats().
const quant::Format* KnownType(std::string_view name);

// Whether llama-quantize refuses to write a tensor of this type without importance; `recipe` is the
// name of a Recipe, or "".
bool RequiresImportance(const quant::Format& type, std::string_view recipe,
                        bool output_or_embedding);

// True if the type packs several values into one block. F32, F16 and BF16 do not.
bool IsQuantized(const quant::Format& format);

// `wanted` if rows of `row_values` values are whole blocks of it; otherwise what llama-quantize
// uses instead (types of 32 for types of 256), and F16 if that does not fit either.
const quant::Format* FallbackFor(const quant::Format* wanted, uint64_t row_values);

// Which type every tensor of a GGUF gets and who decided it, as `--tensors` prints it.

struct TensorType {
  std::string name, source;  // in the GGUF, and in the source; "" for a tensor that is in no source
  std::vector<uint64_t> shape;
  Part part = Part::kTrunk;
  std::string_view stored, type;
  uint64_t bytes = 0;
  TypeChoice choice;
  std::string fallback;           // why `type` is not choice.wanted; "" if it is
  std::string_view overlay_type;  // "" if it is `type`
  std::string_view importance;    // "used", "none" or "no need"; "" without an importance matrix
};

// In the order of the GGUF's tensors. REQUIRES: the types are chosen.
std::vector<TensorType> ListTypes(const TypedGguf& typed);

}  // namespace moepack
