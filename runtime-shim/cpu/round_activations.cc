#include "runtime-shim/cpu/round_activations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "quant/k_quants/k_bits.h"

namespace moepack::runtime {
namespace {

using quant::kSuperBlock;

// Rounds to q8_K: integers of eight bits, and an F32 scale such that the value of largest magnitude
// becomes -127 (quantize_row_q8_K_ref in ggml).
void RoundSuperBlock(std::span<float> block) {
  float largest = 0;
  for (const float value : block) {
    if (std::abs(value) > std::abs(largest)) largest = value;
  }
  if (largest == 0 || !std::isfinite(largest)) return;
  const float inverse = -127.0f / largest;
  for (float& value : block)
    value = std::min(127.0f, std::nearbyint(inverse * value)) * (1 / inverse);
}

void RoundThrough(const quant::Format* format, std::span<float> row) {
  std::vector<std::byte> blocks(format->BytesFor(row.size()).value_or(0));
  if (blocks.empty()) return;
  format->encode(row, {}, blocks);
  format->decode(blocks, row);
}

}  // namespace

void RoundAsLlamaCpp(const quant::Format* format, std::span<float> row) {
  if (format->block_values == kSuperBlock) {
    for (size_t first = 0; first + kSuperBlock <= row.size(); first += kSuperBlock)
      RoundSuperBlock(row.subspan(first, kSuperBlock));
  } else if (format->block_values > 1) {
    RoundThrough(quant::FindFormat("q8_0"), row);
  } else if (format->name == "f16" || format->name == "bf16") {
    RoundThrough(format, row);
  }
}

}  // namespace moepack::runtime
