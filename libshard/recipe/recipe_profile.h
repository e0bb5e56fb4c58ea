// Our own recipes: which of its types a profile gives a tensor.
#pragma once

#include <string>

#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/recipe.h"
#include "libshard/recipe/recipe_list.h"

namespace moepack {

// Which of the profile's columns in docs/quantization.md is the tensor's: "trunk", "gate, up".
std::string ProfileColumn(const ProfileTypes& profile, const GgufTensor& tensor);

// Before the fallback.
const quant::Format* ProfileType(const ProfileTypes& profile, const GgufTensor& tensor);

}  // namespace moepack
