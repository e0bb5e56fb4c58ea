// Converts Hugging Face checkpoints to GGUF, by the rules of its family (libshard/families/).
// Names, keys and rules are those of llama.cpp's converter (docs/families.md).
#pragma once

#include <span>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/model.h"

namespace moepack {

struct GgufConverter {
  std::string_view family;        // Family::name
  std::string_view architecture;  // general.architecture
  Result<GgufModel> (*convert)(const MoeModel& model, const ConvertOptions& options);
};

std::span<const GgufConverter> AllConverters();
// Returns null when the family has no converter.
const GgufConverter* FindConverter(std::string_view family);

// Checks the tensors of a checkpoint as conversion would, whether GGUF is wanted or not. kCorrupt
// for a missing or misshapen tensor, even if it is missing from all layers. Ok for families without
// a converter, for models that conversion does not support, and without tensors.
Status CheckByConversion(const MoeModel& model);

}  // namespace moepack
