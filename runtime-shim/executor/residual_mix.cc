#include "runtime-shim/executor/residual_mix.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moepack::runtime {
namespace {

void Softmax(std::span<float> scores) {
  const float largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (float& score : scores) {
    score = std::exp(score - largest);
    sum += score;
  }
  for (float& score : scores) score = static_cast<float>(score / sum);
}

}  // namespace

void SumWeighed(Executor& executor, std::span<const Rows> sources, std::span<const float> weights,
                const Rows& out) {
  const size_t many = sources.size();
  std::vector<uint32_t> rows(out.count);
  std::iota(rows.begin(), rows.end(), 0u);
  std::vector<float> own(rows.size());
  for (size_t i = 0; i < many; ++i) {
    for (size_t row = 0; row < rows.size(); ++row) own[row] = weights[row * many + i];
    if (i == 0)
      executor.Gather(sources[i], rows, own, out);
    else
      executor.ScatterAdd(out, rows, own, sources[i]);
  }
}

Status MixResiduals(Executor& executor, const ResidualMix& mix, const Rows& out) {
  const size_t many = mix.sources.size(), count = out.count;
  for (uint32_t i = 0; i < many; ++i) {
    executor.RmsNorm(mix.sources[i], {{}, {}, mix.eps}, mix.normed);
    executor.MatMul(mix.score, mix.normed, mix.scores.Columns(i, 1));
  }
  std::vector<float> shares(count * many);
  SHARD_CHECK(executor.Read(mix.scores.Columns(0, static_cast<uint32_t>(many)), shares));
  for (size_t row = 0; row < count; ++row) Softmax(std::span(shares).subspan(row * many, many));
  SumWeighed(executor, mix.sources, shares, out);
  return Ok();
}

}  // namespace moepack::runtime
