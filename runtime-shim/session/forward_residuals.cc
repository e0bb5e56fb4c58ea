// Kimi-K3's residual attention: a norm before attention, the MLP or the head sees a mix of the
// streams that layers before it kept and of the current one.
#include "runtime-shim/executor/residual_mix.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

Rows Forward::Kept(uint32_t number) const {
  return Now(scratch_.stream).Columns((1 + number) * spec_.width, spec_.width);
}

Status Forward::MixStreams(const Matrix& score, uint32_t kept, const Rows& out) {
  std::vector<Rows> sources;
  for (uint32_t number = 0; number < kept; ++number) sources.push_back(Kept(number));
  sources.push_back(Now(scratch_.hidden));
  SHARD_CHECK(MixResiduals(
      executor_, {sources, score, spec_.norm_eps, Now(scratch_.branch), Now(scratch_.scores)},
      out));
  return Mark("residual attention", out);
}

Status Forward::NormStream(const Linear& norm, const Matrix& score, uint32_t kept) {
  const Rows normed = Now(scratch_.normed);
  // Before the first layer there is nothing to mix.
  const bool mixes = kept > 0;
  if (mixes) SHARD_CHECK(MixStreams(score, kept, normed));
  Norm(norm, mixes ? normed : Now(scratch_.hidden), normed);
  return Ok();
}

Status Forward::NormBeforeMlp() {
  SHARD_CHECK(NormStream(weights_->mlp_norm, weights_->mlp_score, spec_.KeptBefore(layer_ + 1)));
  return Mark("norm before the MLP", Now(scratch_.normed));
}

// Attention's output, the first part of the new stream, takes the place of the kept one.
void Forward::KeepStream() {
  executor_.Copy(Now(scratch_.hidden), Kept(layer_ / spec_.residual_block));
}

}  // namespace moepack::runtime
