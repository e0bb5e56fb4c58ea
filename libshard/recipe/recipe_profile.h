// Our own recipes: one type each for the trunk and for the two kinds of expert matrices, whatever
// the layer.
#pragma once

#include <string>
#include <string_view>

#include "libshard/convert/gguf_model.h"

namespace shard {

// Names of types; "" keeps what the source has.
struct Profile {
  std::string_view name;
  std::string_view trunk;          // attention, dense layers, shared experts, output
  std::string_view embedding;      // token_embd.weight
  std::string_view gate_up, down;  // routed experts
};

// Null when there is no such profile. `name` is that of a Recipe.
const Profile* FindProfile(std::string_view name);

// Which of the profile's columns in docs/quantization.md is the tensor's: "trunk", "gate, up".
std::string ProfileColumn(const Profile& profile, const GgufTensor& tensor);

// Before the fallback.
const quant::Format* ProfileType(const Profile& profile, const GgufTensor& tensor);

}  // namespace shard
