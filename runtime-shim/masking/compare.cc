#include "runtime-shim/masking/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "libshard/base/text/text.h"
#include "runtime-shim/session/sampler.h"

namespace moepack::runtime {
namespace {

// Few tokens run at a time, because the logits of a whole prompt would be as large as a model.
constexpr size_t kTokensAtOnce = 16;

}  // namespace

LogitsDifference CompareLogits(std::span<const float> expected, std::span<const float> actual) {
  LogitsDifference difference;
  difference.same_bits = std::memcmp(expected.data(), actual.data(), expected.size_bytes()) == 0;
  double magnitude = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    magnitude = std::max(magnitude, std::abs(double{expected[i]}));
    if (expected[i] == actual[i]) continue;  // also for equal infinities, whose difference is NaN
    difference.largest = std::max(difference.largest, std::abs(double{expected[i]} - actual[i]));
  }
  if (difference.largest > 0)
    difference.relative = magnitude > 0 ? difference.largest / magnitude : difference.largest;
  return difference;
}

Status SideBySide::Feed(std::span<const uint32_t> tokens) {
  while (!tokens.empty()) {
    const auto piece = tokens.first(std::min(tokens.size(), kTokensAtOnce));
    const uint32_t position = expected_.length();
    SHARD_TRY(const std::vector<float> expected, expected_.Feed(piece, LogitsOf::kAll));
    SHARD_TRY(const std::vector<float> actual, actual_.Feed(piece, LogitsOf::kAll));
    if (expected.size() != actual.size())
      return Error{Code::kMismatch, Cat("vocabulary: expected ", expected.size() / piece.size(),
                                        " tokens, found ", actual.size() / piece.size())};
    const size_t width = expected.size() / piece.size();
    for (size_t row = 0; row < piece.size(); ++row) {
      Compare(position + static_cast<uint32_t>(row),
              std::span(expected).subspan(row * width, width),
              std::span(actual).subspan(row * width, width));
    }
    last_.assign(expected.end() - static_cast<ptrdiff_t>(width), expected.end());
    tokens = tokens.subspan(piece.size());
  }
  return Ok();
}

void SideBySide::Compare(uint32_t position, std::span<const float> expected,
                         std::span<const float> actual) {
  const LogitsDifference difference = CompareLogits(expected, actual);
  ++findings_.positions;
  const bool same_bits = findings_.worst.same_bits && difference.same_bits;
  if (difference.relative > findings_.worst.relative) {
    findings_.worst = difference;
    findings_.worst_position = position;
  }
  findings_.worst.same_bits = same_bits;
  const bool passes = tolerance_ == 0 ? difference.same_bits : difference.relative <= tolerance_;
  if (!passes && !findings_.failure) findings_.failure = position;
  if (findings_.greedy || difference.same_bits) return;
  const uint32_t ours = GreedyToken(expected), theirs = GreedyToken(actual);
  if (ours != theirs) findings_.greedy = Divergence{position, ours, theirs};
}

}  // namespace moepack::runtime
