#include "libshard/tasks/work_cost.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "libshard/convert/row_reader.h"

namespace moepack {
namespace {

// Nanoseconds per 10 values on one core, without and with importance: the rates of
// docs/benchmarks.md, "Encoders beside ggml". A core reads, hashes and writes about a byte per
// nanosecond ("shard-experts" there), so these numbers are bytes as well.
struct Cost {
  std::string_view type;
  uint32_t plain, weighted;
};
constexpr Cost kCosts[] = {
    {"f32", 1, 1},     {"f16", 2, 2},     {"bf16", 1, 1},       {"q8_0", 5, 5},
    {"q6_K", 30, 31},  {"q5_K", 44, 93},  {"q4_K", 48, 88},     {"q3_K", 18, 33},
    {"q2_K", 43, 101}, {"q4_0", 5, 32},   {"q4_1", 6, 94},      {"q5_0", 10, 36},
    {"q5_1", 11, 99},  {"mxfp4", 16, 16}, {"iq4_nl", 108, 109}, {"iq4_xs", 110, 112},
};
// For types without a row there: those with code books search longest.
constexpr Cost kOthers = {"", 100, 300};

}  // namespace

uint64_t EncodeCost(const OutputTensor& tensor, uint64_t values) {
  if (!tensor.encoding || tensor.encoding->repack) return 0;
  const Encoding& encoding = *tensor.encoding;
  const auto* row = std::find_if(std::begin(kCosts), std::end(kCosts),
                                 [&](const Cost& cost) { return cost.type == encoding.to->name; });
  const Cost& cost = row == std::end(kCosts) ? kOthers : *row;
  return values * (encoding.importance == nullptr ? cost.plain : cost.weighted) / 10;
}

}  // namespace moepack
