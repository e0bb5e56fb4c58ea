// hidden = embedding
// per layer:  hidden += attention(norm(hidden));  hidden += mlp or experts(norm(hidden))
// logits = output(norm(hidden))
#include "runtime-shim/session/forward.h"

#include <cmath>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/write/open_bundle.h"
#include "runtime-shim/model/rope.h"

namespace moepack::runtime {

Forward::Forward(const DeviceModel& model, Scratch& scratch, const EligibleTables& eligible,
                 RoutingObserver* observer)
    : model_(model),
      spec_(model.spec()),
      executor_(model.executor()),
      scratch_(scratch),
      eligible_(eligible),
      all_observer_(observer),
      observer_(observer) {}

void Forward::SetContext(uint32_t context) {
  const DeviceTrunk& trunk = model_.trunk();
  const std::vector<float>& stretched =
      context > spec_.rope.original_context ? trunk.rope_long : trunk.rope_short;
  turns_ = PairTurns(spec_.rope, trunk.rope_factors.empty() ? stretched : trunk.rope_factors);
  // llama.cpp's graphs give layers with a window no factors.
  local_turns_ = PairTurns(spec_.local_rope, {});
}

namespace {

// Returns a hint. Only a distribution has digests that are worth comparing: other sources have
// none, or they were compared when the source was loaded.
std::string DamagedLayerHint(const Weights& weights) {
  if (!weights.plan) return "the weights of this layer may be damaged";
  return Cat("the weights of this layer may be damaged: ", manifest::VerifyCommand(weights.path),
             " compares them with their digests");
}

}  // namespace

Status Forward::CheckFinite(const char* operation, float value, size_t row) const {
  if (std::isfinite(value)) return Ok();
  return Error{
      Code::kCorrupt,
      Cat(model_.weights().path, ": layer ", layer_, ": ", operation,
          ": expected finite numbers, found ", value, " for the token at position ", past_ + row),
      DamagedLayerHint(model_.weights())};
}

Status Forward::Mark(const char* operation, const Rows& rows) {
  if (!trace_) return Ok();
  std::vector<float> values(size_t{rows.count} * rows.width);
  SHARD_CHECK(executor_.Read(rows, values));
  for (size_t index = 0; index < values.size(); ++index)
    SHARD_CHECK(CheckFinite(operation, values[index], index / rows.width));
  return Ok();
}

void Forward::Norm(const Linear& norm, const Rows& x, const Rows& y) {
  executor_.RmsNorm(x, {norm.weight, norm.bias, spec_.norm_eps}, y);
}

Status Forward::RunLayer(uint32_t layer) {
  layer_ = layer;
  weights_ = &model_.trunk().layers[layer];
  const Rows hidden = Now(scratch_.hidden), normed = Now(scratch_.normed);
  Norm(weights_->attention.norm, hidden, normed);
  SHARD_CHECK(Mark("attention norm", normed));
  SHARD_CHECK(Attend());
  executor_.Add(hidden, Now(scratch_.branch), spec_.residual_scale);
  Norm(weights_->mlp_norm, hidden, normed);
  SHARD_CHECK(Mark("norm before the MLP", normed));
  if (weights_->moe()) {
    SHARD_CHECK(MixExperts());
  } else {
    executor_.RunMlp(weights_->dense, spec_.activation, normed,
                     {Now(scratch_.gate), Now(scratch_.up), Now(scratch_.branch)});
    SHARD_CHECK(Mark("MLP", Now(scratch_.branch)));
  }
  executor_.Add(hidden, Now(scratch_.branch), spec_.residual_scale);
  return Ok();
}

void Forward::WriteTurns(const RopeSpec& rope, std::span<const double> pairs, const Rows& to) {
  std::vector<float> turns(size_t{count_} * rope.dims);
  FillTurns(rope, pairs, past_, turns);
  executor_.Write(turns, Now(to));
}

Status Forward::Run(const Batch& batch, bool trace) {
  count_ = static_cast<uint32_t>(batch.tokens.size());
  past_ = batch.past;
  trace_ = trace;
  layer_ = 0;
  observer_ = batch.quiet ? nullptr : all_observer_;
  WriteTurns(spec_.rope, turns_, scratch_.turns);
  if (spec_.local_rope.dims > 0) WriteTurns(spec_.local_rope, local_turns_, scratch_.local_turns);

  const Rows hidden = Now(scratch_.hidden);
  executor_.Embed(model_.trunk().embedding, batch.tokens, hidden);
  if (spec_.embedding_scale != 1) executor_.Scale(hidden, spec_.embedding_scale);
  SHARD_CHECK(Mark("embedding", hidden));
  const uint32_t layers = batch.layers == 0 ? spec_.layers : batch.layers;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    SHARD_CHECK(CheckInterrupt());
    SHARD_CHECK(RunLayer(layer));
  }
  if (batch.layers != 0) return Ok();

  const uint32_t first = batch.all_logits ? 0 : count_ - 1;
  const Rows asked = hidden.Slice(first, count_ - first);
  const Rows normed = scratch_.normed.Slice(0, asked.count);
  const Rows logits = scratch_.logits.Slice(0, asked.count);
  Norm(model_.trunk().output_norm, asked, normed);
  SHARD_CHECK(Mark("output norm", normed));
  executor_.MatMul(model_.trunk().output, normed, logits);
  if (model_.trunk().output_bias) executor_.AddBias(logits, model_.trunk().output_bias);
  if (spec_.logit_scale != 1) executor_.Scale(logits, spec_.logit_scale);
  return Mark("output", logits);
}

}  // namespace moepack::runtime
