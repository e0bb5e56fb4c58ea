// Our own recipes, the profiles: which of its types a profile gives to a tensor.
#pragma once

#include <string>

#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/recipe.h"
#include "libshard/recipe/recipe_list.h"

namespace moepack {

// Returns the tensor's column of the profiles' table in docs/quantization.md: "trunk", "gate, up".
std::string ProfileColumn(const ProfileTypes& profile, const GgufTensor& tensor);

// The type of the tensor, before the fallback.
const quant::Format* ProfileType(const ProfileTypes& profile, const GgufTensor& tensor);

}  // namespace moepack
