// Which layouts of generated checkpoints convert to GGUF.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "fixtures/generator.h"
#include "fixtures/layout.h"
#include "libshard/convert/gguf_model.h"

namespace moepack {

// Layouts of families that have a converter, which refuses them nevertheless.
struct RefusedSource {
  const char* layout;
  const char* message;
};
constexpr RefusedSource kRefusedSources[] = {
    {"step-3.7", "expected Step3p5ForCausalLM, found \"Step3p7FlashForCausalLM\""},
    {"mistral4-mlx", "expected a tensor that the GGUF form of mistral4 has, found another"},
    {"qwen3-moe-mlx",
     "expected a tensor that the GGUF form of qwen3-moe has, found another (switch_mlp is MLX's "
     "name for the experts of a layer)"},
};

inline bool IsConvertible(const std::string& layout) {
  const bool refused =
      std::any_of(std::begin(kRefusedSources), std::end(kRefusedSources),
                  [&](const RefusedSource& refusal) { return refusal.layout == layout; });
  return !refused && FindConverter(fixtures::FindLayout(layout)->family) != nullptr;
}

inline std::vector<std::string> ConvertibleLayouts() {
  std::vector<std::string> layouts = fixtures::Layouts();
  std::erase_if(layouts, [](const std::string& layout) { return !IsConvertible(layout); });
  return layouts;
}

}  // namespace moepack
