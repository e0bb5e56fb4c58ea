#include "runtime-shim/session/layer_pass.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/files/mapped_file.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

bool AllRowsFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

EligibleTables AllOf(const DeviceModel& model, uint32_t layer, const LayerExpertTable& experts) {
  EligibleTables eligible;
  eligible.tables.resize(model.spec().layers);
  eligible.tables[layer] = experts;
  ExpertIds& ids = eligible.ids[layer];
  for (uint32_t id = 0; id < experts.size(); ++id) {
    if (experts[id] != nullptr) ids.push_back(id);
  }
  return eligible;
}

}  // namespace

Result<LayerPass> LayerPass::Open(const DeviceModel& model, uint32_t layer, const Room& room) {
  LayerPass pass(model, layer);
  RowCounts counts;
  counts.batch = room.context * room.windows;
  counts.context = room.context;
  counts.layer = layer;
  for (uint32_t window = 0; window < room.windows; ++window) {
    SHARD_TRY(Caches caches, AllocateRows(model, counts, model.scratch()));
    pass.caches_.push_back(std::move(caches));
  }
  pass.turns_ = Forward::TurnsOf(model, room.context);
  return pass;
}

std::vector<Segment> LayerPass::SegmentsOf(WindowTokenSpans windows,
                                           const EligibleTables* eligible) {
  std::vector<Segment> segments;
  for (size_t i = 0; i < windows.size(); ++i) {
    Caches& caches = caches_[i];
    // Every run starts from no tokens, also the second one of Watched.
    ClearState(model_.spec(), layer_, caches.layers[layer_]);
    segments.push_back({windows[i], 0, &caches.layers, eligible, nullptr, &turns_});
  }
  return segments;
}

Status LayerPass::ReadRows(const Rows& rows, std::span<float> values) const {
  const auto count = static_cast<uint32_t>(values.size() / rows.width);
  return model_.executor().Read(rows.Slice(0, count), values);
}

Status LayerPass::Embed(WindowTokenSpans windows, std::span<float> stream) {
  Forward forward(model_);
  std::vector<Segment> segments = SegmentsOf(windows, nullptr);
  SHARD_CHECK(forward.Embed(segments));
  const size_t width = model_.scratch().hidden.width, all = model_.scratch().stream.width;
  std::vector<float> embedded(stream.size() / all * width);
  SHARD_CHECK(ReadRows(model_.scratch().hidden, embedded));
  std::fill(stream.begin(), stream.end(), 0.0f);  // no layer has kept anything
  for (size_t row = 0; row < stream.size() / all; ++row)
    std::copy_n(embedded.begin() + row * width, width, stream.begin() + row * all);
  return Ok();
}

template <class Run>
Status LayerPass::Watched(std::span<float> stream, const Run& run) {
  Scratch& scratch = model_.scratch();
  const auto count = static_cast<uint32_t>(stream.size() / scratch.stream.width);
  const std::vector<float> before(stream.begin(), stream.end());
  model_.executor().Write(before, scratch.stream.Slice(0, count));
  Status done = run(/*trace=*/false);
  if (done) done = ReadRows(scratch.stream, stream);
  SHARD_CHECK(CheckMappedFiles());
  if (done && AllRowsFinite(stream)) return Ok();
  // A router that finds NaN among its logits refuses to choose, which is kInvalidArgument.
  if (!done && done.error().code != Code::kCorrupt && done.error().code != Code::kInvalidArgument)
    return done;
  // The first run overwrote its input, so the traced run gets it back.
  model_.executor().Write(before, scratch.stream.Slice(0, count));
  SHARD_CHECK(run(/*trace=*/true));
  if (!done) return done;
  return Error{Code::kCorrupt,
               Cat(model_.weights().path, ": layer ", layer_,
                   ": activations: expected finite numbers, found NaN or infinity")};
}

Status LayerPass::RunLayer(WindowTokenSpans windows, const LayerExpertTable& experts,
                           std::span<float> stream, std::span<float> sums) {
  const EligibleTables eligible = AllOf(model_, layer_, experts);
  return Watched(stream, [&](bool trace) -> Status {
    Forward forward(model_);
    std::vector<Segment> segments = SegmentsOf(windows, &eligible);
    SHARD_CHECK(forward.RunAttention(segments, layer_, trace));
    if (sums.empty()) return forward.RunMlp();
    SHARD_CHECK(forward.SumExperts());
    SHARD_CHECK(ReadRows(forward.ExpertSums(), sums));
    return forward.AddExperts();
  });
}

Status LayerPass::RunToExperts(WindowTokenSpans windows, const NodeRows& rows) {
  return Watched(rows.stream, [&](bool trace) -> Status {
    Forward forward(model_);
    std::vector<Segment> segments = SegmentsOf(windows, nullptr);
    SHARD_CHECK(forward.RunAttention(segments, layer_, trace));
    SHARD_CHECK(forward.PutRouterInputs());
    if (!rows.router.empty()) SHARD_CHECK(ReadRows(model_.scratch().normed, rows.router));
    SHARD_TRY(const Rows inputs, forward.PutExpertInputs());
    SHARD_CHECK(ReadRows(inputs, rows.inputs));
    if (rows.shared.empty()) return Ok();
    forward.RunShared();
    return ReadRows(model_.scratch().branch, rows.shared);
  });
}

Status LayerPass::AddExperts(WindowTokenSpans windows, std::span<const float> sums,
                             std::span<float> stream) {
  return Watched(stream, [&](bool trace) -> Status {
    Forward forward(model_);
    std::vector<Segment> segments = SegmentsOf(windows, nullptr);
    SHARD_CHECK(forward.ResumeAfterAttention(segments, layer_, trace));
    const Rows rows = forward.ExpertSums();
    model_.executor().Write(sums, rows);
    return forward.AddExperts();
  });
}

Status LayerPass::NormOutputs(std::span<const float> stream, std::span<float> inputs) {
  const Scratch& scratch = model_.scratch();
  const Linear& norm = model_.trunk().output_norm;
  const auto count = static_cast<uint32_t>(stream.size() / model_.spec().width);
  const Rows hidden = scratch.hidden.Slice(0, count), normed = scratch.normed.Slice(0, count);
  model_.executor().Write(stream, hidden);
  model_.executor().RmsNorm(hidden, {norm.weight, norm.bias, model_.spec().norm_eps}, normed);
  return model_.executor().Read(normed, inputs);
}

}  // namespace moepack::runtime
