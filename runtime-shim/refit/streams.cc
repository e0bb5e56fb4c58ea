#include "runtime-shim/refit/streams.h"

#include <algorithm>

#include "libshard/base/parallel.h"

namespace moepack::runtime {
namespace {

// The share of a refit's memory that a pass may work in.
constexpr uint64_t kShareOfPass = 8;

float SquaresOfRow(std::span<const float> row) {
  double squares = 0;
  for (const float value : row) squares += double{value} * double{value};
  return static_cast<float>(squares);
}

}  // namespace

Result<Streams> Streams::Make(const DeviceModel& model, const Calibration& text, size_t nodes,
                              uint64_t memory, RowRoom& room) {
  const uint32_t width = model.spec().width, own = model.spec().expert_width(),
                 whole_width = static_cast<uint32_t>(model.spec().stream_width());
  const uint64_t apart = SetsExpertsApart(model.spec()) ? text.tokens : 0;
  // Rows that are read in random order come first, so that they are the first to be in memory.
  SHARD_TRY(RowStore outputs, RowStore::Make(text.tokens, own, room));
  SHARD_TRY(RowStore targets, RowStore::Make(text.tokens, own, room));
  SHARD_TRY(RowStore inputs, RowStore::Make(text.tokens, own, room));
  SHARD_TRY(RowStore router, RowStore::Make(apart, width, room));
  SHARD_TRY(RowStore whole, RowStore::Make(text.tokens, whole_width, room));
  Streams made(model,
               {std::move(inputs), std::move(router), std::move(targets), std::move(outputs)},
               std::move(whole));
  for (size_t node = 0; node < nodes; ++node) {
    SHARD_TRY(RowStore stream, RowStore::Make(text.tokens, whole_width, room));
    made.nodes_.push_back(std::move(stream));
  }
  made.windows_ = WindowBatches::Of(model, text, memory / kShareOfPass);
  made.squares_.resize(text.tokens);
  SHARD_CHECK(made.Embed());
  return made;
}

Status Streams::ForEachBatch(RowStore& stream, const RunBatch& run) {
  std::vector<float> rows;
  for (const WindowBatch& batch : windows_.batches) {
    SHARD_CHECK(CheckInterrupt());
    rows.resize(batch.tokens * model_->spec().stream_width());
    SHARD_CHECK(stream.Read(batch.first, rows));
    SHARD_CHECK(run(batch, rows));
    SHARD_CHECK(stream.Write(batch.first, rows));
    if (ran_) ran_(batch.tokens);
  }
  return Ok();
}

Status Streams::Embed() {
  SHARD_CHECK(Open(0));
  return ForEachBatch(whole_, [&](const WindowBatch& batch, std::span<float> stream) -> Status {
    SHARD_CHECK(pass_[0].Embed(batch.windows, stream));
    for (RowStore& node : nodes_) SHARD_CHECK(node.Write(batch.first, stream));
    return Ok();
  });
}

Status Streams::Open(uint32_t layer) {
  pass_.clear();
  SHARD_TRY(LayerPass pass, LayerPass::Open(*model_, layer, windows_.room));
  pass_.push_back(std::move(pass));
  return Ok();
}

Status Streams::SetTargets(uint64_t first, std::span<const float> targets) {
  const size_t width = rows_.targets.width();
  for (size_t row = 0; row < targets.size() / width; ++row)
    squares_[first + row] = SquaresOfRow(targets.subspan(row * width, width));
  return rows_.targets.Write(first, targets);
}

Status Streams::RunWhole(const LayerExpertTable& experts) {
  const bool apart = SetsExpertsApart(model_->spec()) && !experts.empty();
  std::vector<float> sums;
  return ForEachBatch(whole_, [&](const WindowBatch& batch, std::span<float> stream) -> Status {
    if (apart) sums.resize(batch.tokens * rows_.targets.width());
    SHARD_CHECK(pass_[0].RunLayer(batch.windows, experts, stream, sums));
    return apart ? SetTargets(batch.first, sums) : Ok();
  });
}

Status Streams::RunDense(size_t node) {
  return ForEachBatch(nodes_[node], [&](const WindowBatch& batch, std::span<float> stream) {
    return pass_[0].RunLayer(batch.windows, {}, stream);
  });
}

Status Streams::RunToExperts(size_t node) {
  const bool apart = SetsExpertsApart(model_->spec());
  return ForEachBatch(nodes_[node], [&](const WindowBatch& batch, std::span<float> stream) {
    return apart ? RunToOwnSpace(batch, stream) : RunToStream(batch, stream);
  });
}

// The targets are there already: they do not depend on the node.
Status Streams::RunToOwnSpace(const WindowBatch& batch, std::span<float> stream) {
  std::vector<float> inputs(batch.tokens * rows_.inputs.width()),
      router(batch.tokens * rows_.router_inputs.width());
  SHARD_CHECK(pass_[0].RunToExperts(batch.windows, {stream, inputs, router, {}}));
  SHARD_CHECK(rows_.router_inputs.Write(batch.first, router));
  return rows_.inputs.Write(batch.first, inputs);
}

Status Streams::RunToStream(const WindowBatch& batch, std::span<float> stream) {
  const float scale = model_->spec().ScaleOfExperts();
  std::vector<float> inputs(stream.size()), shared(stream.size()), target(stream.size());
  SHARD_CHECK(pass_[0].RunToExperts(batch.windows, {stream, inputs, {}, shared}));
  SHARD_CHECK(whole_.Read(batch.first, target));
  for (size_t i = 0; i < target.size(); ++i) {
    // What the routed experts must add so that this stream equals the whole model's after the
    // layer.
    target[i] = (target[i] - stream[i]) / scale - shared[i];
    stream[i] += scale * shared[i];
  }
  SHARD_CHECK(rows_.inputs.Write(batch.first, inputs));
  return SetTargets(batch.first, target);
}

Status Streams::AddOutputs(size_t node) {
  const ModelSpec& spec = model_->spec();
  std::vector<float> outputs;
  return ForEachBatch(nodes_[node],
                      [&](const WindowBatch& batch, std::span<float> stream) -> Status {
                        outputs.resize(batch.tokens * rows_.outputs.width());
                        SHARD_CHECK(rows_.outputs.Read(batch.first, outputs));
                        if (SetsExpertsApart(spec))
                          return pass_[0].AddExperts(batch.windows, outputs, stream);
                        for (size_t i = 0; i < stream.size(); ++i)
                          stream[i] += spec.ScaleOfExperts() * outputs[i];
                        return Ok();
                      });
}

}  // namespace moepack::runtime
