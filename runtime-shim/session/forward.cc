// hidden = embedding
// per layer:  hidden += attention(norm(hidden));  hidden += mlp or experts(norm(hidden))
// logits = output(norm(hidden))
// forward_residuals.cc has what is normed with residual attention.
#include "runtime-shim/session/forward.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/write/open_bundle.h"
#include "runtime-shim/model/rope.h"

namespace moepack::runtime {

Forward::Forward(const DeviceModel& model)
    : model_(model), spec_(model.spec()), executor_(model.executor()), scratch_(model.scratch()) {}

Turns Forward::TurnsOf(const DeviceModel& model, uint32_t context) {
  const RopeSpec& rope = model.spec().rope;
  const DeviceTrunk& trunk = model.trunk();
  // LongRoPE (Phi-3.5-MoE). The room of the session decides and not its length, as in llama.cpp's
  // get_rope_factors: keys in the cache are rotated already.
  const std::vector<float>& stretched =
      context > rope.original_context ? trunk.rope_long : trunk.rope_short;
  // llama.cpp's graphs use no factors for layers with a window.
  return {PairTurns(rope, trunk.rope_factors.empty() ? stretched : trunk.rope_factors),
          PairTurns(model.spec().local_rope, {})};
}

namespace {

// Returns a hint. Only a distribution has digests worth comparing: other sources have none, or they
// were compared when the source was loaded.
std::string DamagedLayerHint(const Weights& weights) {
  if (!weights.plan) return "the weights of this layer may be corrupt";
  return Cat("the weights of this layer may be corrupt: ", manifest::VerifyCommand(weights.path),
             " compares them with their digests");
}

}  // namespace

Status Forward::CheckFinite(const char* operation, float value, size_t row) const {
  if (std::isfinite(value)) return Ok();
  return Error{Code::kCorrupt,
               Cat(model_.weights().path, ": layer ", layer_, ": ", operation,
                   ": expected finite numbers, found ", value, " for the token at position ",
                   positions_[row]),
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

Status Forward::RunAttentionOf(uint32_t layer) {
  layer_ = layer;
  weights_ = &model_.trunk().layers[layer];
  if (RoutesEarly()) executor_.Copy(Now(scratch_.hidden), Now(scratch_.beside));
  if (spec_.layer[layer].embeds_ngrams) SHARD_CHECK(AddNgrams());
  if (spec_.layer[layer].mixes) SHARD_CHECK(MixLayer());
  const bool normed_before = FeedsInParallel() || RoutesEarly() || spec_.one_norm;
  if (!spec_.layer[layer].feeds || normed_before) return Ok();
  const uint32_t kept = spec_.KeptBefore(layer + 1);
  SHARD_CHECK(NormInput(weights_->mlp_norm, weights_->streams, kept));
  return Mark("norm before the MLP", Now(scratch_.normed));
}

Status Forward::MixLayer() {
  const uint32_t kept = spec_.KeptBefore(layer_);
  SHARD_CHECK(NormInput(weights_->attention.norm, weights_->mixer_streams, kept));
  SHARD_CHECK(Mark("attention norm", Now(scratch_.normed)));
  SHARD_CHECK(Attend());
  const Rows branch = Now(scratch_.branch);
  const Matrix& after = weights_->attention.norm_after;
  if (after) executor_.RmsNorm(branch, {after, {}, spec_.norm_eps}, branch);
  if (spec_.KeepsStream(layer_))
    StartStream();
  else
    AddToStream(spec_.residual_scale);
  return Ok();
}

Status Forward::NormInput(const Linear& norm, const StreamWeights& streams, uint32_t kept) {
  const Rows hidden = Now(scratch_.hidden), normed = Now(scratch_.normed);
  if (spec_.streams.gated()) return ReadGated(streams.gates, hidden, normed);
  if (spec_.streams.count > 0)
    SHARD_CHECK(ReadStreams(streams));
  else if (kept > 0)
    SHARD_CHECK(MixKept(streams.score, kept, normed));
  Norm(norm, spec_.streams.count > 0 || kept > 0 ? normed : hidden, normed);
  return Ok();
}

void Forward::AddToStream(float scale) {
  if (spec_.streams.gated()) return WriteGated();
  if (spec_.streams.count > 0) return WriteStreams();
  executor_.Add(Now(scratch_.hidden), Now(scratch_.branch), scale);
}

bool Forward::FeedsInParallel() const { return spec_.parallel_experts && weights_->moe(); }

void Forward::AddBranch(float scale) {
  const Rows branch = Now(scratch_.branch);
  if (weights_->norm_after) Norm({weights_->norm_after, {}}, branch, branch);
  AddToStream(scale);
}

Status Forward::RunMlp() {
  if (!spec_.layer[layer_].feeds) return Ok();
  if (weights_->moe()) {
    SHARD_CHECK(SumExperts());
    return AddExperts();
  }
  const Rows branch = Now(scratch_.branch);
  executor_.RunMlp(weights_->dense, MlpActivation(), Now(scratch_.normed),
                   {Now(scratch_.gate), Now(scratch_.up), branch});
  SHARD_CHECK(Mark("MLP", branch));
  AddBranch(spec_.residual_scale);
  return Ok();
}

namespace {

// Turns by the same angles in the other direction.
std::vector<float> Backwards(std::vector<float> turns, uint32_t dims) {
  for (size_t i = 0; i < turns.size(); ++i)
    if (i % dims >= dims / 2) turns[i] = -turns[i];
  return turns;
}

}  // namespace

void Forward::WriteTurns() {
  const RopeSpec &rope = spec_.rope, &local = spec_.local_rope;
  turns_.resize(size_t{count_} * rope.dims);
  std::vector<float> locals(size_t{count_} * local.dims);
  for (const Segment& segment : segments_) {
    const size_t first = segment.first_row, count = segment.count();
    FillTurns(rope, segment.turns->pairs, segment.past,
              std::span(turns_).subspan(first * rope.dims, count * rope.dims));
    if (local.dims == 0) continue;
    FillTurns(local, segment.turns->local, segment.past,
              std::span(locals).subspan(first * local.dims, count * local.dims));
  }
  executor_.Write(turns_, Now(scratch_.turns));
  if (local.dims > 0) executor_.Write(locals, Now(scratch_.local_turns));
  if (spec_.compressed.groups == 0) return;
  executor_.Write(Backwards(turns_, rope.dims), Now(scratch_.back_turns));
  executor_.Write(Backwards(std::move(locals), local.dims), Now(scratch_.local_back_turns));
}

// A state cannot go back, so it is recomputed from the first token. The keys and values
// of other layers are written again, with the same bits.
Status Forward::CatchUp(const Segment& segment, uint32_t layers) {
  bool holds = true;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const auto tokens = TokensInState(spec_.layer[layer], (*segment.caches)[layer]);
    holds = holds && tokens.value_or(segment.past) == segment.past;
  }
  if (holds) return Ok();
  for (uint32_t layer = 0; layer < spec_.layers; ++layer)
    ClearState(spec_, layer, (*segment.caches)[layer]);
  for (uint32_t first = 0; first < segment.past;) {
    Segment part = segment;
    part.tokens = segment.before.subspan(first, std::min(scratch_.batch, segment.past - first));
    part.past = first;
    // The observer has seen these tokens.
    part.observer = nullptr;
    SHARD_CHECK(RunSegments({&part, 1}, layers));
    first += part.count();
  }
  return Ok();
}

Status Forward::Run(std::vector<Segment>& segments, uint32_t layers, bool trace) {
  if (layers == 0) layers = spec_.layers;
  trace_ = false;
  // Tokens that are run again are no progress.
  const auto ran = std::exchange(ran_, nullptr);
  for (const Segment& segment : segments) SHARD_CHECK(CatchUp(segment, layers));
  ran_ = ran;
  trace_ = trace;
  return RunSegments(segments, layers);
}

std::vector<uint32_t> Forward::Place(std::span<Segment> segments) {
  layer_ = count_ = 0;
  picked_.clear();
  segments_ = segments;
  positions_.clear();
  std::vector<uint32_t> tokens;
  for (Segment& segment : segments) {
    segment.first_row = count_;
    count_ += segment.count();
    tokens.insert(tokens.end(), segment.tokens.begin(), segment.tokens.end());
    for (uint32_t i = 0; i < segment.count(); ++i) positions_.push_back(segment.past + i);
  }
  return tokens;
}

Status Forward::EmbedTokens(std::span<const uint32_t> tokens) {
  const Rows hidden = Now(scratch_.hidden), first = hidden.Columns(0, spec_.width);
  executor_.Embed(model_.trunk().embedding, tokens, first);
  if (spec_.embedding_scale != 1) executor_.Scale(first, spec_.embedding_scale);
  for (uint32_t stream = 1; stream < spec_.streams.count; ++stream)
    executor_.Copy(first, hidden.Columns(stream * spec_.width, spec_.width));
  return Mark("embedding", hidden);
}

Status Forward::Embed(std::vector<Segment>& segments) {
  trace_ = false;
  return EmbedTokens(Place(segments));
}

Status Forward::RunAttention(std::vector<Segment>& segments, uint32_t layer, bool trace) {
  Place(segments);
  WriteTurns();
  trace_ = trace;
  layer_ = layer;
  SHARD_CHECK(CheckPicks());
  return RunAttentionOf(layer);
}

Status Forward::ResumeAfterAttention(std::vector<Segment>& segments, uint32_t layer, bool trace) {
  Place(segments);
  trace_ = trace;
  layer_ = layer;
  weights_ = &model_.trunk().layers[layer];
  // AddShared reads the normed rows.
  if (FeedsInParallel()) return Ok();
  return NormInput(weights_->mlp_norm, weights_->streams, spec_.KeptBefore(layer + 1));
}

Status Forward::RunSegments(std::span<Segment> segments, uint32_t layers) {
  const std::vector<uint32_t> tokens = Place(segments);
  WriteTurns();
  SHARD_CHECK(EmbedTokens(tokens));
  for (uint32_t layer = 0; layer < layers; ++layer) {
    SHARD_CHECK(CheckInterrupt());
    SHARD_CHECK(RunAttentionOf(layer));
    SHARD_CHECK(RunMlp());
    if (ran_) ran_((layer + 1.0) / layers);
  }
  return Ok();
}

Status Forward::PutLogits(std::span<const uint32_t> rows, bool trace) {
  trace_ = trace;
  const auto count = static_cast<uint32_t>(rows.size());
  const Rows normed = scratch_.normed.Slice(0, count), logits = scratch_.logits.Slice(0, count);
  SHARD_CHECK(GatherOutputs(rows, normed));
  if (!spec_.streams.gated()) Norm(model_.trunk().output_norm, normed, normed);
  SHARD_CHECK(Mark("output norm", normed));
  executor_.MatMul(model_.trunk().output, normed, logits);
  if (model_.trunk().output_bias) executor_.AddBias(logits, model_.trunk().output_bias);
  if (spec_.logit_scale != 1) executor_.Scale(logits, spec_.logit_scale);
  return Mark("output", logits);
}

}  // namespace moepack::runtime
