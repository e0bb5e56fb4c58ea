#include "libshard/convert/weights/weight_scales.h"

#include <algorithm>
#include <limits>

#include "libshard/base/text/text.h"
#include "quant/half.h"

namespace moepack {
namespace {

float PowerOfTwo(std::byte exponent) {
  constexpr std::byte kNan{255};
  if (exponent == kNan) return std::numeric_limits<float>::quiet_NaN();
  return 2 * quant::HalfOfE8M0(std::to_integer<uint8_t>(exponent));
}

}  // namespace

std::vector<float> WeightScales::Decode(std::span<const std::byte> bytes) const {
  std::vector<float> scales(bytes.size() / value_bytes());
  if (entry_->dtype == kPowersOfTwo) {
    std::transform(bytes.begin(), bytes.end(), scales.begin(), PowerOfTwo);
    return scales;
  }
  entry_->format->decode(bytes, scales);
  return scales;
}

std::string WeightScales::Place(uint64_t index) const {
  std::vector<uint64_t> at(entry_->shape.size());
  for (size_t i = at.size(); i-- > 0;) {
    at[i] = index % entry_->shape[i];
    index /= entry_->shape[i];
  }
  return Cat(file_->path.string(), ": tensor ", Quoted(entry_->name), ": scale at ",
             FormatShape(at));
}

Error WeightScales::Unusable(float scale, uint64_t index) const {
  return {Code::kCorrupt, Cat(Place(index), ": expected a finite number, found ", scale),
          "the file is corrupt or was quantized wrongly: download it again"};
}

Error WeightScales::Zero(uint64_t index) const {
  return {Code::kCorrupt,
          Cat(Place(index),
              ": expected another number than zero for codes that are not all zero, found 0"),
          "the file is corrupt or was quantized wrongly: download it again"};
}

Result<uint16_t> WeightScales::Half(float scale, uint64_t index, const quant::Format* to,
                                    GridReport& report) const {
  constexpr int kLargestHalf = 65504;
  const uint16_t half = quant::FloatToHalf(scale);
  const float kept = quant::HalfToFloat(half);
  if (!std::isfinite(kept)) {
    return Error{Code::kUnsupported,
                 Cat(Place(index), ": expected at most ", kLargestHalf, ", as the scales of ",
                     to->name, " can be, found ", scale),
                 "choose another type for this tensor with --tensor-type, such as bf16"};
  }
  report.scales += 1;
  report.exact += kept == scale ? 1 : 0;
  if (scale != 0) {
    const double wanted = scale;
    report.rounding = std::max(report.rounding, std::abs((double{kept} - wanted) / wanted));
  }
  return half;
}

}  // namespace moepack
