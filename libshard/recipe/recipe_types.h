// What all recipes share: which tensors may change, which types can be written, what a row is too
// short for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/recipe.h"

namespace moepack {

// Whether a recipe has a say: a matrix (leading ones not counted) whose name ends in "weight", is
// not on llama-quantize's list of tensors left unchanged, and is neither fixed nor a literal.
bool MayChange(const GgufTensor& tensor);
// Why it has none, in a clause; "" where it has one.
std::string_view ReasonToKeep(const GgufTensor& tensor);
// The type of a tensor without a recipe: F32 when fixed, else the stored one; F32 for stored types
// that GGUF does not have (FP8, packed integers), as it alone loses nothing.
const quant::Format* KeptType(const GgufTensor& tensor);

// The type called `name`, in any case. kInvalidArgument, with the types that can be written, when
// there is none or it cannot be encoded; `what` says who asked ("--trunk-type").
Result<const quant::Format*> ParseTargetType(const std::string& what, std::string_view name);
// A type of a recipe. REQUIRES: `name` is one of quant::AllFormats().
const quant::Format* KnownType(std::string_view name);

// Whether ggml packs several values into one block: F32, F16 and BF16 are not quantized.
bool IsQuantized(const quant::Format& format);

// `wanted` when rows of `row_values` values are whole blocks of it; else what llama-quantize takes
// instead (types of 256 to types of 32), and F16 when that does not fit either.
const quant::Format* FallbackFor(const quant::Format* wanted, uint64_t row_values);

}  // namespace moepack
