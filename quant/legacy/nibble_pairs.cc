#include "quant/legacy/nibble_pairs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/legacy/nibble_pairs.cc"
#include <hwy/foreach_target.h>

#include "quant/legacy/nibbles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void DecodeNibblePairsLanes(std::span<const std::byte> pairs, NibbleScale scale,
                            std::span<float> out) {
  size_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const V zero = Splat(scale.zero), factor = Splat(scale.scale);
  const DBytes16 bytes;
  const auto* const packed = reinterpret_cast<const uint8_t*>(pairs.data());
  HWY_ALIGN uint8_t codes[kGroup32];
  for (; done + kGroup32 <= out.size(); done += kGroup32) {
    const NibbleHalves halves = LoadNibbles(packed + done / 2);
    hn::Store(hn::InterleaveLower(bytes, halves.low, halves.high), bytes, codes);
    hn::Store(hn::InterleaveUpper(bytes, halves.low, halves.high), bytes, codes + 16);
    for (size_t i = 0; i < kGroup32; i += LaneCount()) {
      const V value = hn::Mul(hn::Sub(LoadBytes(d, codes + i), zero), factor);
      hn::StoreU(value, d, out.data() + done + i);
    }
  }
#endif
  DecodeNibblePairsRef(pairs.subspan(done / 2), scale, out.subspan(done));
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(DecodeNibblePairsLanes);

void DecodeNibblePairs(std::span<const std::byte> pairs, NibbleScale scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeNibblePairsLanes)(pairs, scale, out);
}

}  // namespace quant
#endif
