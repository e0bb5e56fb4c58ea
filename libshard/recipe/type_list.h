// Which type every tensor of a GGUF gets and who decided it, as `--tensors` prints it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/recipe/quantize.h"

namespace moepack {

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
