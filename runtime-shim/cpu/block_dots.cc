#include "runtime-shim/cpu/block_dots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime-shim/cpu/block_dots.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// after highway.h, which they use
#include "quant/k_quants/k_decode-inl.h"
#include "quant/k_quants/q4_k.h"
#include "quant/k_quants/q6_k.h"
#include "quant/nibbles/q8_0.h"
#include "runtime-shim/cpu/dots-inl.h"
#include "runtime-shim/cpu/dots.h"

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

namespace quant_lanes = quant::HWY_NAMESPACE;

constexpr size_t kVectorLanes = HWY_LANES(float);

HWY_INLINE FloatVector SplatFloat(float value) { return hn::Set(FloatTag(), value); }

// Each type of blocks: Load reads what belongs to a whole block, then ForEach<kPart> calls
// take(i, vector) with the values of that part from i on, in order: those of the type's decoder in
// quant/, to the last bit. The parts of several rows are worked on in turns, so that the additions
// of one row do not wait for each other.

struct Bf16Values {
  static constexpr size_t kValues = 64, kBytes = 128, kParts = 1;
  const uint8_t* block;

  HWY_INLINE void Load(const uint8_t* from) { block = from; }
  template <size_t kPart, class Take>
  HWY_INLINE void ForEach(const Take& take) const {
    const hn::Rebind<uint16_t, FloatTag> shorts;
    const hn::Rebind<uint32_t, FloatTag> bits;
    const auto* const from = reinterpret_cast<const uint16_t*>(block);
    for (size_t i = 0; i < kValues; i += kVectorLanes) {
      const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(shorts, from + i)));
      take(i, hn::BitCast(FloatTag(), upper));
    }
  }
};

struct Q80Values {
  static constexpr size_t kValues = quant::BlockQ80::kValues, kBytes = sizeof(quant::BlockQ80);
  static constexpr size_t kParts = 1;
  const int8_t* q;
  float scale;

  HWY_INLINE void Load(const uint8_t* from) {
    q = reinterpret_cast<const int8_t*>(from + offsetof(quant::BlockQ80, qs));
    scale = quant_lanes::LoadHalf(from + offsetof(quant::BlockQ80, d));
  }
  template <size_t kPart, class Take>
  HWY_INLINE void ForEach(const Take& take) const {
    const FloatVector scales = SplatFloat(scale);
    for (size_t i = 0; i < kValues; i += kVectorLanes)
      take(i, hn::Mul(scales, quant_lanes::LoadBytes(FloatTag(), q + i)));
  }
};

using IntegerTag = hn::RebindToSigned<FloatTag>;
using ByteTag = hn::Rebind<uint8_t, FloatTag>;
using SignedByteTag = hn::Rebind<int8_t, FloatTag>;

// The values that the nibbles of a group stand for: looked up where a vector has room for all 16.
class NibbleLevels {
 public:
  HWY_INLINE NibbleLevels(float scale, float min)
      : scale_(SplatFloat(scale)), min_(SplatFloat(min)) {
#if HWY_TARGET <= HWY_AVX3
    scale_ = ValueOf(hn::Iota(FloatTag(), 0.0f));
#endif
  }
  HWY_INLINE FloatVector Of(hn::Vec<ByteTag> nibbles) const {
    const auto levels = hn::PromoteTo(IntegerTag(), nibbles);
#if HWY_TARGET <= HWY_AVX3
    return hn::TableLookupLanes(scale_, hn::IndicesFromVec(FloatTag(), levels));
#else
    return ValueOf(hn::ConvertTo(FloatTag(), levels));
#endif
  }

 private:
  HWY_INLINE FloatVector ValueOf(FloatVector level) const {
    return hn::Sub(hn::Mul(scale_, level), min_);
  }

  FloatVector scale_, min_;  // scale_ is the table where there is one
};

struct Q4KValues {
  static constexpr size_t kValues = quant::BlockQ4K::kValues, kBytes = sizeof(quant::BlockQ4K);
  static constexpr size_t kPlane = quant::kQ4KDistance, kParts = kValues / (2 * kPlane);
  const uint8_t* q;
  quant_lanes::GroupRanges<quant::ScalePairs::kGroups> pairs;

  HWY_INLINE void Load(const uint8_t* from) {
    q = from + offsetof(quant::BlockQ4K, qs);
    quant_lanes::LoadPairs(from + offsetof(quant::BlockQ4K, pairs), pairs);
  }
  template <size_t kPart, class Take>
  HWY_INLINE void ForEach(const Take& take) const {
    const ByteTag bytes;
    const uint8_t* const packed = q + kPart * kPlane;
    const NibbleLevels low(pairs.scale[2 * kPart], pairs.min[2 * kPart]);
    const NibbleLevels high(pairs.scale[2 * kPart + 1], pairs.min[2 * kPart + 1]);
    for (size_t i = 0; i < kPlane; i += kVectorLanes)
      take(2 * kPart * kPlane + i,
           low.Of(hn::And(hn::LoadU(bytes, packed + i), hn::Set(bytes, 15))));
    for (size_t i = 0; i < kPlane; i += kVectorLanes)
      take((2 * kPart + 1) * kPlane + i, high.Of(hn::ShiftRight<4>(hn::LoadU(bytes, packed + i))));
  }
};

struct Q6KValues {
  static constexpr size_t kValues = quant::BlockQ6K::kValues, kBytes = sizeof(quant::BlockQ6K);
  static constexpr size_t kParts = 8, kPlane = kValues / kParts;
  static constexpr size_t kGroup = kValues / quant::BlockQ6K::kGroups;
  const uint8_t* block;
  alignas(64) float scale[quant::BlockQ6K::kGroups];

  HWY_INLINE void Load(const uint8_t* from) {
    block = from;
    quant_lanes::ScaleLevels<quant::BlockQ6K::kGroups>(
        reinterpret_cast<const int8_t*>(from + offsetof(quant::BlockQ6K, scales)),
        quant_lanes::LoadHalf(from + offsetof(quant::BlockQ6K, d)), scale);
  }
  // Nibbles lie as PackFourBits puts them, their upper bits as PackTwoBits does (k_bits.h).
  template <size_t kPart, class Take>
  HWY_INLINE void ForEach(const Take& take) const {
    const ByteTag bytes;
    constexpr size_t kRun = kPart / 4, kQuarter = kPart % 4;
    const uint8_t* const low =
        block + offsetof(quant::BlockQ6K, ql) + 64 * kRun + kQuarter % 2 * kPlane;
    const uint8_t* const high = block + offsetof(quant::BlockQ6K, qh) + 32 * kRun;
    for (size_t i = 0; i < kPlane; i += kVectorLanes) {
      const auto nibbles = hn::LoadU(bytes, low + i);
      const auto lower =
          kQuarter < 2 ? hn::And(nibbles, hn::Set(bytes, 15)) : hn::ShiftRight<4>(nibbles);
      const auto upper =
          hn::And(hn::ShiftRight<2 * kQuarter>(hn::LoadU(bytes, high + i)), hn::Set(bytes, 3));
      const auto level = hn::Sub(hn::Or(lower, hn::ShiftLeft<4>(upper)),
                                 hn::Set(bytes, static_cast<uint8_t>(quant::kQ6KLevels)));
      const auto integers = hn::PromoteTo(IntegerTag(), hn::BitCast(SignedByteTag(), level));
      const size_t at = kPart * kPlane + i;
      take(at, hn::Mul(SplatFloat(scale[at / kGroup]), hn::ConvertTo(FloatTag(), integers)));
    }
  }
};

// Adds a part of each row's block, and then the parts after it.
template <size_t kPart, class Values, size_t kRows>
HWY_INLINE void AddParts(const Values (&rows)[kRows], const float* x, FloatVector (&sums)[kRows]) {
  if constexpr (kPart < Values::kParts) {
    const FloatTag d;
    for (size_t r = 0; r < kRows; ++r) {
      FloatVector sum = sums[r];
      rows[r].template ForEach<kPart>([&](size_t i, FloatVector values) {
        sum = hn::MulAdd(values, hn::LoadU(d, x + i), sum);
      });
      sums[r] = sum;
    }
    AddParts<kPart + 1>(rows, x, sums);
  }
}

// Rows [row, row + kRows). Those after them are asked for meanwhile, up to the last.
template <class Values, size_t kRows>
HWY_INLINE void MultiplyBlockRows(const BlockProduct& product, size_t row) {
  const FloatTag d;
  const auto* const first =
      reinterpret_cast<const uint8_t*>(product.blocks) + row * product.row_bytes;
  const size_t ahead = row + 2 * kRows <= product.rows ? kRows * product.row_bytes : 0;
  FloatVector vectors[kRows];
  for (FloatVector& vector : vectors) vector = hn::Zero(d);
  size_t at = 0;  // in a row's bytes
  for (size_t c = 0; c < product.columns; at += Values::kBytes) {
    Values rows[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      const uint8_t* const block = first + r * product.row_bytes + at;
      for (size_t line = 0; line < Values::kBytes; line += 64)
        __builtin_prefetch(block + ahead + line);
      rows[r].Load(block);
    }
    AddParts<0>(rows, product.x + c, vectors);
    c += Values::kValues;
    if (c % kColumnsAtOnce != 0 && c < product.columns) continue;
    alignas(64) float sums[16];
    SumLanes<HWY_LANES(float)>(vectors, sums);
    PutSums<kRows>(sums, c > kColumnsAtOnce, product.y + row);
    for (FloatVector& vector : vectors) vector = hn::Zero(d);
  }
}

template <class Values>
void MultiplyAllRows(const BlockProduct& product) {
  size_t row = 0;
  for (; row + 4 <= product.rows; row += 4) MultiplyBlockRows<Values, 4>(product, row);
  for (; row < product.rows; ++row) MultiplyBlockRows<Values, 1>(product, row);
}

bool MultiplyBlocksLanes(BlockType type, const BlockProduct& product) {
  switch (type) {
    case BlockType::kBf16:
      if (product.columns % Bf16Values::kValues != 0) return false;
      MultiplyAllRows<Bf16Values>(product);
      return true;
    case BlockType::kQ80:
      MultiplyAllRows<Q80Values>(product);
      return true;
    case BlockType::kQ4K:
      MultiplyAllRows<Q4KValues>(product);
      return true;
    case BlockType::kQ6K:
      MultiplyAllRows<Q6KValues>(product);
      return true;
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
  static const quant::Format* const bf16 = quant::FindFormat("bf16");
  static const quant::Format* const q8_0 = quant::FindFormat("q8_0");
  static const quant::Format* const q4_k = quant::FindFormat("q4_K");
  static const quant::Format* const q6_k = quant::FindFormat("q6_K");
  if (format == bf16) return BlockType::kBf16;
  if (format == q8_0) return BlockType::kQ80;
  if (format == q4_k) return BlockType::kQ4K;
  if (format == q6_k) return BlockType::kQ6K;
  return BlockType::kOther;
}

}  // namespace

HWY_EXPORT(MultiplyBlocksLanes);

bool MultiplyBlocks(const quant::Format* format, const BlockProduct& product) {
  return HWY_DYNAMIC_DISPATCH(MultiplyBlocksLanes)(TypeOf(format), product);
}

}  // namespace moepack::runtime
#endif
