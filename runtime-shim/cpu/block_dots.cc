#include "runtime-shim/cpu/block_dots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime-shim/cpu/block_dots.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <string_view>
#include <utility>
// after highway.h, which it uses
#include "runtime-shim/cpu/block_values_k-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

// Weights are prefetched at least this many bytes before they are read: what arrives in the time
// that memory needs to answer. The hardware prefetches, too, but not across pages.
constexpr size_t kAhead = 6 << 10;
constexpr size_t kCacheLine = 64;
// Where prefetched bytes go, numbered like caches in __builtin_prefetch. The first level allows few
// outstanding misses, for which types with many bytes wait: 1.4 times as long with bf16 on Zen 4.
constexpr int kFirstLevel = 3, kSecondLevel = 2;
template <class Values>
constexpr int kNearest = Values::kBytes >= 2 * Values::kValues ? kSecondLevel : kFirstLevel;

// Adds the columns of a block to each row's sums, from run kIndex on.
template <class Values, size_t kIndex, size_t kRows>
HWY_INLINE void AddRuns(const uint8_t* const (&blocks)[kRows],
                        const typename Values::Scales* const (&scales)[kRows], const float* x,
                        FloatVector (&sums)[kRows]) {
  if constexpr (kIndex * Values::kRun < Values::kValues) {
    const FloatTag d;
    constexpr size_t kVectors = Values::kRun / kVectorLanes;
    for (size_t r = 0; r < kRows; ++r) {
      FloatVector values[kVectors];
      Values::template Run<kIndex>(blocks[r], *scales[r], values);
      FloatVector sum = sums[r];
      for (size_t v = 0; v < kVectors; ++v)
        sum = hn::MulAdd(values[v], hn::LoadU(d, x + v * kVectorLanes), sum);
      sums[r] = sum;
    }
    AddRuns<Values, kIndex + 1>(blocks, scales, x + Values::kRun, sums);
  }
}

// Rows [row, row + kRows).
template <class Values, size_t kRows>
HWY_INLINE void MultiplyBlockRows(const BlockProduct& product, size_t row) {
  ScaleRows<Values, kRows> scales;
  const auto* const first =
      reinterpret_cast<const uint8_t*>(product.blocks) + row * product.row_bytes;
  const uint8_t* ahead = first + std::max(kRows * product.row_bytes, kAhead);
  const uint8_t* blocks[kRows];
  for (size_t r = 0; r < kRows; ++r) blocks[r] = first + r * product.row_bytes;
  for (size_t column = 0; column < product.columns; column += kColumnsAtOnce) {
    const size_t count =
        std::min<size_t>(kColumnsAtOnce, product.columns - column) / Values::kValues;
    const typename Values::Scales* at[kRows];
    FloatVector vectors[kRows];
    Values::PrepareRows(blocks, count, scales);
    for (size_t r = 0; r < kRows; ++r) {
      at[r] = scales[r];
      vectors[r] = hn::Zero(FloatTag());
    }
    for (size_t i = 0; i < count; ++i) {
      for (size_t line = 0; line < kRows * Values::kBytes; line += kCacheLine)
        __builtin_prefetch(ahead + line, /*write=*/0, kNearest<Values>);
      ahead += kRows * Values::kBytes;
      AddRuns<Values, 0>(blocks, at, product.x + column + i * Values::kValues, vectors);
      for (size_t r = 0; r < kRows; ++r) blocks[r] += Values::kBytes, ++at[r];
    }
    alignas(64) float sums[16];
    SumLanes<HWY_LANES(float)>(vectors, sums);
    PutSums<kRows>(sums, column > 0, product.y + row);
  }
}

template <class Values>
bool MultiplyAllRows(const BlockProduct& product) {
  if (product.columns % Values::kValues != 0) return false;
  constexpr size_t kRows = Values::kRows;
  size_t row = 0;
  for (; row + kRows <= product.rows; row += kRows) MultiplyBlockRows<Values, kRows>(product, row);
  for (; row < product.rows; ++row) MultiplyBlockRows<Values, 1>(product, row);
  return true;
}

bool MultiplyBlocksLanes(BlockType type, const BlockProduct& product) {
  switch (type) {
    case BlockType::kF32:
      return MultiplyAllRows<F32Values>(product);
    case BlockType::kF16:
      return MultiplyAllRows<F16Values>(product);
    case BlockType::kBf16:
      return MultiplyAllRows<Bf16Values>(product);
    case BlockType::kQ80:
      return MultiplyAllRows<Q80Values>(product);
    case BlockType::kQ4K:
      return MultiplyAllRows<Q4KValues>(product);
    case BlockType::kQ5K:
      return MultiplyAllRows<Q5KValues>(product);
    case BlockType::kQ6K:
      return MultiplyAllRows<Q6KValues>(product);
    case BlockType::kOther:
      break;
  }
  return false;
}

#else

bool MultiplyBlocksLanes(BlockType, const BlockProduct&) { return false; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moepack::runtime {
namespace {

BlockType TypeOf(const quant::Format* format) {
  static constexpr std::pair<std::string_view, BlockType> kTypes[] = {
      {"f32", BlockType::kF32},  {"f16", BlockType::kF16},  {"bf16", BlockType::kBf16},
      {"q8_0", BlockType::kQ80}, {"q4_K", BlockType::kQ4K}, {"q5_K", BlockType::kQ5K},
      {"q6_K", BlockType::kQ6K},
  };
  for (const auto& [name, type] : kTypes) {
    if (format->name == name) return type;
  }
  return BlockType::kOther;
}

}  // namespace

HWY_EXPORT(MultiplyBlocksLanes);

bool MultiplyBlocks(const quant::Format* format, const BlockProduct& product) {
  return HWY_DYNAMIC_DISPATCH(MultiplyBlocksLanes)(TypeOf(format), product);
}

}  // namespace moepack::runtime
#endif
