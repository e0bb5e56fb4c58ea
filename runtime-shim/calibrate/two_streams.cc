#include "runtime-shim/calibrate/two_streams.h"

#include <algorithm>
#include <utility>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/model/gguf_keys.h"

namespace moepack::runtime {
namespace {

// The shares of the memory that rows of tokens may take, and that a pass may work in.
constexpr uint64_t kShareOfRows = 2;
constexpr uint64_t kShareOfPass = 8;

Status MakeRows(uint64_t count, uint32_t width, RowRoom& room, std::optional<RowStore>& store) {
  SHARD_TRY(RowStore made, RowStore::Make(count, width, room));
  store.emplace(std::move(made));
  return Ok();
}

}  // namespace

TwoStreams::TwoStreams(const CalibrateInput& input, const CalibrateOptions& options,
                       uint64_t passes, OnProgress progress)
    : input_(input),
      options_(options),
      passes_(passes),
      progress_(std::move(progress)),
      model_(static_cast<const DeviceModel&>(input.model)),
      apart_(SetsExpertsApart(model_.spec())) {}

Result<std::unique_ptr<TwoStreams>> TwoStreams::Make(const CalibrateInput& input,
                                                     const CalibrateOptions& options,
                                                     uint64_t passes, OnProgress progress) {
  if (input.model.spec().chunks.experts > 0)
    return Error{Code::kUnsupported,
                 Cat(input.model.weights().path, ": --calibrate: expected experts of their own, ",
                     "found experts that share chunks (", input.model.spec().architecture, ")")};
  const ModelSpec& spec = input.model.spec();
  if (spec.stream_width() != spec.width)
    return Error{Code::kUnsupported,
                 Cat(input.model.weights().path, ": --calibrate: expected one residual stream, ",
                     "found ", spec.stream_width() / spec.width, " (", spec.architecture, ")")};
  auto made =
      std::unique_ptr<TwoStreams>(new TwoStreams(input, options, passes, std::move(progress)));
  SHARD_CHECK(made->Start());
  return made;
}

Status TwoStreams::Start() {
  SHARD_TRY(text_, CalibrationTextOf(input_.sessions, options_, input_.bos));
  SHARD_TRY(SourceLayers source, SourceLayers::Make(model_));
  source_.emplace(std::move(source));
  windows_ = WindowBatches::Of(model_, text_, options_.memory / kShareOfPass);
  for (const CalibrationWindow& window : text_.windows)
    held_out_.insert(held_out_.end(), window.tokens.size(), window.kept_back);
  SHARD_TRY(RowRoom room, RowRoom::Of(options_.memory / kShareOfRows, options_.scratch));
  const uint32_t own = spec().expert_width(), apart = apart_ ? spec().width : 0;
  const uint64_t tokens = text_.tokens;
  // Rows that are read in random order come first, so that they are the first to be in memory.
  for (ExpertStream* stream : {&encoded_experts_, &full_experts_}) {
    SHARD_CHECK(MakeRows(tokens, own, room, stream->sums));
    SHARD_CHECK(MakeRows(tokens, own, room, stream->inputs));
  }
  for (ExpertStream* stream : {&encoded_experts_, &full_experts_})
    SHARD_CHECK(MakeRows(apart == 0 ? 0 : tokens, spec().width, room, stream->router));
  SHARD_CHECK(MakeRows(tokens, spec().width, room, encoded_));
  SHARD_CHECK(MakeRows(tokens, spec().width, room, full_));
  return Embed();
}

Status TwoStreams::Embed() {
  SHARD_TRY(LayerPass pass, LayerPass::Open(model_, 0, windows_.room));
  for (const WindowBatch& batch : batches()) {
    stream_.resize(batch.tokens * spec().width);
    SHARD_CHECK(pass.Embed(batch.windows, stream_));
    SHARD_CHECK(encoded_->Write(batch.first, stream_));
    SHARD_CHECK(full_->Write(batch.first, stream_));
  }
  return Ok();
}

Status TwoStreams::StartFrom(const EncodedTensors& encoded) {
  const auto found = encoded.find(kEmbeddingTensor);
  if (found == encoded.end()) return Ok();
  const quant::Format* const type = input_.types.find(kEmbeddingTensor)->second;
  const uint64_t row_bytes = *type->BytesFor(spec().width);
  uint64_t token = 0;
  std::vector<float> row(spec().width);
  for (const CalibrationWindow& window : text_.windows) {
    for (const uint32_t id : window.tokens) {
      type->decode(std::span(found->second).subspan(id * row_bytes, row_bytes), row);
      for (float& value : row) value *= spec().embedding_scale;
      SHARD_CHECK(encoded_->Write(token++, row));
    }
  }
  return Ok();
}

Status TwoStreams::Open(uint32_t layer) {
  watch().Stop();
  watch().UseEncoded(false);
  watch().Forget();
  pass_.clear();
  const uint32_t open = std::min(layer, spec().layers - 1);
  SHARD_TRY(LayerPass pass, LayerPass::Open(model_, open, windows_.room));
  pass_.push_back(std::move(pass));
  return layer < spec().layers ? source_->Enter(layer) : Ok();
}

std::vector<const HostTensor*> TwoStreams::TrunkTensorsOf(uint32_t layer) const {
  std::vector<const HostTensor*> tensors;
  for (const HostTensor& tensor : model_.weights().trunk) {
    const std::optional<BlockName> name = ParseBlockName(tensor.name);
    if (name && name->block == layer && input_.types.contains(tensor.name))
      tensors.push_back(&tensor);
  }
  return tensors;
}

const quant::Format* TwoStreams::TypeOf(const HostTensor& tensor) const {
  return input_.types.find(tensor.name)->second;
}

Status TwoStreams::Put(const HostTensor& tensor, std::span<const std::byte> bytes) {
  return watch().Put(tensor, TypeOf(tensor), bytes, model_.executor());
}

Status TwoStreams::PutTrunk(uint32_t layer, const EncodedTensors& encoded) {
  for (const HostTensor* tensor : TrunkTensorsOf(layer)) {
    const auto found = encoded.find(tensor->name);
    if (found != encoded.end()) SHARD_CHECK(Put(*tensor, found->second));
  }
  return Ok();
}

Status TwoStreams::RunDense() {
  watch().Stop();
  for (const WindowBatch& batch : batches()) {
    SHARD_CHECK(CheckInterrupt());
    for (const Of stream : {Of::kEncoded, Of::kFull}) {
      stream_.resize(batch.tokens * spec().width);
      SHARD_CHECK(Rows(stream).Read(batch.first, stream_));
      watch().UseEncoded(stream == Of::kEncoded);
      SHARD_CHECK(pass_[0].RunLayer(batch.windows, {}, stream_));
      SHARD_CHECK(Rows(stream).Write(batch.first, stream_));
    }
    Advance(batch.tokens);
  }
  return Ok();
}

Status TwoStreams::RunToExperts() {
  watch().Stop();
  for (const WindowBatch& batch : batches()) {
    SHARD_CHECK(CheckInterrupt());
    SHARD_CHECK(ToExperts(batch, Of::kEncoded, /*keep=*/true));
    SHARD_CHECK(ToExperts(batch, Of::kFull, /*keep=*/true));
    Advance(batch.tokens);
  }
  return Ok();
}

Status TwoStreams::AddExperts() {
  for (const WindowBatch& batch : batches()) {
    SHARD_CHECK(Add(batch, Of::kEncoded, /*keep=*/true));
    SHARD_CHECK(Add(batch, Of::kFull, /*keep=*/true));
    Advance(batch.tokens);
  }
  return Ok();
}

ExpertLayer TwoStreams::Experts(uint32_t layer) {
  return {model_,        input_.watch, input_.types, options_, *source_, encoded_experts_,
          full_experts_, held_out_,    layer,        nullptr,  nullptr};
}

Status TwoStreams::ToExperts(const WindowBatch& batch, Of of, bool keep) {
  RowStore& store = Rows(of);
  ExpertStream& stream = of == Of::kEncoded ? encoded_experts_ : full_experts_;
  stream_.resize(batch.tokens * spec().width);
  SHARD_CHECK(store.Read(batch.first, stream_));
  watch().UseEncoded(of == Of::kEncoded);
  if (!has_experts()) return pass_[0].RunLayer(batch.windows, {}, stream_);
  inputs_.resize(batch.tokens * spec().expert_width());
  shared_.resize(apart_ ? 0 : stream_.size());
  router_.resize(apart_ ? stream_.size() : 0);
  SHARD_CHECK(pass_[0].RunToExperts(batch.windows, {stream_, inputs_, router_, shared_}));
  if (!keep) return Ok();
  for (size_t i = 0; i < shared_.size(); ++i) stream_[i] += spec().ScaleOfExperts() * shared_[i];
  SHARD_CHECK(stream.inputs->Write(batch.first, inputs_));
  if (apart_) SHARD_CHECK(stream.router->Write(batch.first, router_));
  return store.Write(batch.first, stream_);
}

Status TwoStreams::Add(const WindowBatch& batch, Of of, bool keep) {
  RowStore& store = Rows(of);
  const RowStore& sums = of == Of::kEncoded ? *encoded_experts_.sums : *full_experts_.sums;
  stream_.resize(batch.tokens * spec().width);
  inputs_.resize(batch.tokens * sums.width());
  SHARD_CHECK(store.Read(batch.first, stream_));
  SHARD_CHECK(sums.Read(batch.first, inputs_));
  watch().UseEncoded(of == Of::kEncoded);
  if (apart_) {
    SHARD_CHECK(pass_[0].AddExperts(batch.windows, inputs_, stream_));
  } else {
    for (size_t i = 0; i < stream_.size(); ++i) stream_[i] += spec().ScaleOfExperts() * inputs_[i];
  }
  return keep ? store.Write(batch.first, stream_) : Ok();
}

Status TwoStreams::InputsOfOutput(const WindowBatch& batch, Of stream, std::vector<float>& inputs) {
  stream_.resize(batch.tokens * spec().width);
  inputs.resize(stream_.size());
  SHARD_CHECK(Rows(stream).Read(batch.first, stream_));
  return pass_[0].NormOutputs(stream_, inputs);
}

void TwoStreams::Advance(uint64_t tokens) {
  done_ += tokens;
  if (progress_) progress_(done_, std::max(done_, text_.tokens * (passes_ * spec().layers + 1)));
}

}  // namespace moepack::runtime
