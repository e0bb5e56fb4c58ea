#include "quant/legacy/nibble_pairs.h"

namespace quant {

void DecodeNibblePairsRef(std::span<const std::byte> pairs, NibbleScale scale,
                          std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto pair = std::to_integer<unsigned>(pairs[i / 2]);
    const unsigned code = i % 2 == 0 ? pair & 15u : pair >> 4;
    out[i] = (static_cast<float>(code) - scale.zero) * scale.scale;
  }
}

}  // namespace quant
