#include "runtime-shim/masking/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

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

namespace {

template <class T>
std::vector<T> Slice(std::span<const T> values, size_t index, size_t width) {
  if (values.empty()) return {};
  const auto part = values.subspan(index * width, width);
  return {part.begin(), part.end()};
}

bool Same(std::span<const float> expected, std::span<const float> actual, double tolerance) {
  if (expected.size() != actual.size()) return false;
  const LogitsDifference difference = CompareLogits(expected, actual);
  return tolerance == 0 ? difference.same_bits : difference.relative <= tolerance;
}

std::string IdList(const std::vector<uint32_t>& ids) {
  std::string text;
  for (const uint32_t id : ids) text += Cat(text.empty() ? "" : ",", id);
  return text;
}

// Says how two steps differ; "" if they agree.
std::string Difference(const RoutingTrace::Step& expected, const RoutingTrace::Step& actual,
                       double tolerance) {
  if (!Same(expected.logits, actual.logits, tolerance))
    return "the router's logits differ, so the cause lies before this layer's experts";
  if (expected.chosen.ids != actual.chosen.ids)
    return Cat("experts ", IdList(expected.chosen.ids), " were expected, ",
               IdList(actual.chosen.ids), " chosen");
  if (!Same(expected.chosen.weights, actual.chosen.weights, tolerance))
    return "the gates of the chosen experts differ";
  for (size_t i = 0; i < std::min(expected.norms.size(), actual.norms.size()); ++i) {
    const float ours[] = {expected.norms[i], expected.peaks[i]};
    const float theirs[] = {actual.norms[i], actual.peaks[i]};
    if (!Same(ours, theirs, tolerance))
      return Cat("expert ", expected.chosen.ids[i], " outputs other values");
  }
  return "";
}

}  // namespace

void RoutingTrace::Observe(const RoutedBatch& batch) {
  const size_t top_k = batch.chosen.empty() ? 0 : batch.chosen[0].ids.size();
  for (uint32_t token = 0; token < batch.tokens; ++token) {
    steps_[{batch.first_position + token, batch.layer}] = {
        Slice(batch.logits, token, batch.expert_count), batch.chosen[token],
        Slice(batch.output_norms, token, top_k), Slice(batch.output_peaks, token, top_k)};
  }
}

LayerExperts RoutingTrace::Used() const {
  std::map<uint32_t, std::set<uint32_t>> used;
  for (const auto& [where, step] : steps_)
    used[where.second].insert(step.chosen.ids.begin(), step.chosen.ids.end());
  LayerExperts experts_by_layer;
  for (const auto& [layer, ids] : used) experts_by_layer[layer].assign(ids.begin(), ids.end());
  return experts_by_layer;
}

std::optional<RoutingDifference> FirstDifference(const RoutingTrace& expected,
                                                 const RoutingTrace& actual, double tolerance) {
  for (const auto& [where, step] : expected.steps()) {
    const auto other = actual.steps().find(where);
    if (other == actual.steps().end()) continue;
    std::string what = Difference(step, other->second, tolerance);
    if (!what.empty()) return RoutingDifference{where.first, where.second, std::move(what)};
  }
  return std::nullopt;
}

}  // namespace moepack::runtime
