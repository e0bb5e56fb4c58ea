#include "runtime-shim/session/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

Error Bad(const char* thing, const char* expected, float found) {
  return {Code::kInvalidArgument,
          Cat("sampling: ", thing, ": expected ", expected, ", found ", found)};
}

// Returns the logarithm of the sum of exp(logits). The largest logit is subtracted first, so that
// exp does not overflow.
double LogSum(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

// Returns the ids of the `count` largest logits, best first.
std::vector<uint32_t> Best(std::span<const float> logits, size_t count) {
  std::vector<uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  // The lower id wins a tie, as in GreedyToken.
  const auto better = [&](uint32_t a, uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(), better);
  ids.resize(count);
  return ids;
}

// Returns the tokens that pass the filters, best first.
std::vector<uint32_t> Candidates(std::span<const float> logits, const Sampling& sampling) {
  const size_t most = sampling.top_k == 0 ? logits.size() : sampling.top_k;
  std::vector<uint32_t> ids = Best(logits, std::min(most, logits.size()));
  const double log_sum = LogSum(logits);
  const auto probability = [&](uint32_t id) { return std::exp(logits[id] - log_sum); };
  const double least = sampling.min_p * probability(ids[0]);
  double mass = 0;
  size_t kept = 0;
  // A top_p of 1 keeps all tokens; because of rounding, their sum may reach 1 too early.
  while (kept < ids.size() && (sampling.top_p == 1 || mass < sampling.top_p)) {
    const double next = probability(ids[kept]);
    if (kept > 0 && next < least) break;
    mass += next;
    ++kept;
  }
  ids.resize(kept);
  return ids;
}

}  // namespace

Status CheckSampling(const Sampling& sampling) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0)
    return Bad("temperature", "0 or more", sampling.temperature);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    return Bad("top-p", "more than 0, at most 1", sampling.top_p);
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1)) return Bad("min-p", "0 to 1", sampling.min_p);
  return Ok();
}

uint32_t GreedyToken(std::span<const float> logits) {
  return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double LogProbability(std::span<const float> logits, uint32_t id) {
  return logits[id] - LogSum(logits);
}

// The upper 53 bits are the ones that a double holds exactly, and 2^-53 scales them to [0, 1).
double RandomBits::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

NextToken Sampler::Pick(std::span<const float> logits) {
  if (sampling_.temperature == 0) {
    const uint32_t id = GreedyToken(logits);
    return {id, LogProbability(logits, id)};
  }
  const std::vector<uint32_t> ids = Candidates(logits, sampling_);
  std::vector<double> weights;
  double sum = 0;
  for (const uint32_t id : ids) {
    const double distance = static_cast<double>(logits[id]) - logits[ids[0]];
    sum += weights.emplace_back(std::exp(distance / sampling_.temperature));
  }
  double left = random_.Uniform() * sum;
  size_t at = 0;
  // The last token takes what rounding leaves over.
  while (at + 1 < ids.size() && left >= weights[at]) left -= weights[at++];
  return {ids[at], LogProbability(logits, ids[at])};
}

}  // namespace moepack::runtime
