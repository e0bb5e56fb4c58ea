// Kimi-K3's residual attention: a norm before attention, the MLP or the head sees a mix of the
// streams that layers before it kept and of the current one.
#include "runtime-shim/executor/residual_mix.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

Rows Forward::Kept(uint32_t number) const {
  return Now(scratch_.stream).Columns(spec_.hidden_width() + number * spec_.width, spec_.width);
}

Status Forward::MixKept(const Matrix& score, uint32_t kept, const Rows& out) {
  std::vector<Rows> sources;
  for (uint32_t number = 0; number < kept; ++number) sources.push_back(Kept(number));
  sources.push_back(Now(scratch_.hidden));
  SHARD_CHECK(MixResiduals(
      executor_, {sources, score, spec_.norm_eps, Now(scratch_.branch), Now(scratch_.scores)},
      out));
  return Mark("residual attention", out);
}

void Forward::StartStream() {
  const Rows hidden = Now(scratch_.hidden);
  executor_.Copy(hidden, Kept(layer_ / spec_.residual_block));
  executor_.Copy(Now(scratch_.branch), hidden);
}

}  // namespace moepack::runtime
