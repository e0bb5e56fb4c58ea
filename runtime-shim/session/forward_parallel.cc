// Gemma-4's layers with experts: a dense MLP and the experts start from the same rows, each with
// its own norms, and the router has a third. All of this follows llama.cpp's src/models/gemma4.cpp.
// SmallThinker's routers, too, have inputs of their own.
#include <cmath>

#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

Status Forward::PutRouterInputs() {
  const Rows normed = Now(scratch_.normed);
  if (RoutesEarly()) executor_.Copy(Now(scratch_.beside), normed);
  if (!FeedsInParallel()) return Ok();
  Norm({weights_->parallel.router, {}}, Now(scratch_.hidden), normed);
  executor_.Scale(normed, 1 / std::sqrt(static_cast<float>(spec_.width)));
  return Mark("norm before the router", normed);
}

Status Forward::AddInParallel() {
  const ParallelWeights& weights = weights_->parallel;
  const Rows hidden = Now(scratch_.hidden), normed = Now(scratch_.normed);
  const Rows beside = Now(scratch_.beside), branch = Now(scratch_.branch);
  Norm(weights_->mlp_norm, hidden, normed);
  SHARD_CHECK(Mark("norm before the MLP", normed));
  executor_.RunMlp(weights_->dense, spec_.activation, normed,
                   {Now(scratch_.gate), Now(scratch_.up), beside});
  SHARD_CHECK(Mark("MLP", beside));
  Norm({weights.mlp_out, {}}, beside, beside);
  Norm({weights.experts_out, {}}, branch, branch);
  SHARD_CHECK(Mark("sum of experts", branch));

  executor_.Add(branch, beside, 1);
  Norm({weights.out, {}}, branch, branch);
  executor_.Add(hidden, branch, spec_.residual_scale);
  if (weights.scale != 1) executor_.Scale(hidden, weights.scale);
  return Mark("scaled output", hidden);
}

}  // namespace moepack::runtime
