#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quant {

// nvfp4: 64 values in 36 bytes (4.5 bits each). No alignment required. NVIDIA's FP4 with a scale
// for every 16 values, in ggml's order. The per-tensor scale of NVIDIA's format is a separate
// tensor in GGUF and is not known here.
//
//   bytes    field    meaning
//   0-3      d        E4M3 scales of the four groups of 16, without a sign
//   4-35     qs       F4_E2M1 values: in group g, value j is the low and value j + 8 the high half
//                     of byte 8 g + j
//
// value[i] = E4M3(d[g]) * E2M1(q[i]),  g = i / 16; E2M1 as in mxfp4.h.
struct BlockNvfp4 {
  static constexpr size_t kValues = 64;
  static constexpr size_t kGroups = 4;
  static constexpr size_t kGroupValues = kValues / kGroups;
  uint8_t d[kGroups];
  uint8_t qs[32];
};
static_assert(sizeof(BlockNvfp4) == 36);

// Half of what a scale stands for, because the code book is stored doubled. The sign is ignored,
// and 0x7f, which is NaN in the OCP format, gives 0.
float HalfOfUnsignedE4M3(uint8_t scale);

// Returns the scale for a group whose largest magnitude is `largest`, about 6 times the scale.
// Halves are rounded up, and what would become 256 or more gets 448, the largest scale.
uint8_t Nvfp4ScaleFor(float largest);

// Encoder and Decoder of format.h. The importance is not used.
void EncodeNvfp4(std::span<const float> values, std::span<const float> importance,
                 std::span<std::byte> out);
void EncodeNvfp4Ref(std::span<const float> values, std::span<const float> importance,
                    std::span<std::byte> out);
void DecodeNvfp4(std::span<const std::byte> blocks, std::span<float> out);
void DecodeNvfp4Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
