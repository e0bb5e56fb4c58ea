// The scales of a stored weight: which of them are usable, and which are not.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libshard/convert/weights/weight.h"

namespace moepack {

// A tensor of scales (F32, BF16 or F16) and the file it is in. Borrows both.
class WeightScales {
 public:
  WeightScales() = default;
  WeightScales(const WeightSource& source, const TensorEntry& entry)
      : entry_(&entry), file_(&source.checkpoint.files()[entry.file]) {}

  const TensorEntry& entry() const { return *entry_; }
  uint64_t value_bytes() const { return entry_->format->block_bytes; }
  std::vector<float> Decode(std::span<const std::byte> bytes) const;

  static bool IsUsable(float scale) { return std::isfinite(scale); }
  // kCorrupt: value number `index` of the tensor is not usable.
  Error Unusable(float scale, uint64_t index) const;
  // kCorrupt: a scale of zero for codes that are not all zero. Whatever wrote them did not multiply
  // by it.
  Error Zero(uint64_t index) const;
  // A usable scale as the F16 that blocks of `to` store, counted in `report`. kUnsupported if it is
  // too large for that.
  Result<uint16_t> Half(float scale, uint64_t index, const quant::Format* to,
                        GridReport& report) const;

 private:
  // "<path>: tensor <name>: scale at [3, 7]"
  std::string Place(uint64_t index) const;

  const TensorEntry* entry_ = nullptr;
  const SourceFile* file_ = nullptr;
};

}  // namespace moepack
