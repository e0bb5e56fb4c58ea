#include "runtime-shim/calibrate/calibrate.h"

#include <algorithm>
#include <utility>

#include "libshard/base/files/temporary_directory.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/model/gguf_keys.h"
#include "runtime-shim/calibrate/encode_matrix.h"
#include "runtime-shim/calibrate/layer_experts.h"
#include "runtime-shim/refit/kept_pages.h"
#include "runtime-shim/refit/row_store.h"
#include "runtime-shim/refit/source_layers.h"
#include "runtime-shim/refit/window_batches.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {
namespace {

// The shares of the memory that rows of tokens may take, and that a pass may work in.
constexpr uint64_t kShareOfRows = 2;
constexpr uint64_t kShareOfPass = 8;

class CalibrateRun final : public Calibrator {
 public:
  CalibrateRun(const CalibrateInput& input, const CalibrateOptions& options, OnProgress progress)
      : input_(input),
        options_(options),
        progress_(std::move(progress)),
        model_(static_cast<const DeviceModel&>(input.model)),
        spec_(model_.spec()),
        apart_(SetsExpertsApart(spec_)) {}

  Status Start() {
    SHARD_TRY(text_, CalibrationTextOf(input_.sessions, options_, input_.bos));
    SHARD_TRY(SourceLayers source, SourceLayers::Make(model_));
    source_.emplace(std::move(source));
    windows_ = WindowBatches::Of(model_, text_, options_.memory / kShareOfPass);
    for (const CalibrationWindow& window : text_.windows)
      held_out_.insert(held_out_.end(), window.tokens.size(), window.kept_back);
    RowRoom room;
    room.memory = options_.memory / kShareOfRows;
    room.scratch = options_.scratch;
    if (options_.scratch.empty()) {
      SHARD_TRY(room.scratch, TemporaryDirectory());
    }
    const uint32_t own = spec_.expert_width(), apart = apart_ ? spec_.width : 0;
    const uint64_t tokens = text_.tokens;
    // Rows that are read in random order come first, so that they are the first to be in memory.
    for (ExpertStream* stream : {&own_, &full_}) {
      SHARD_CHECK(MakeRows(tokens, own, room, stream->sums));
      SHARD_CHECK(MakeRows(tokens, own, room, stream->inputs));
    }
    for (ExpertStream* stream : {&own_, &full_})
      SHARD_CHECK(MakeRows(apart == 0 ? 0 : tokens, spec_.width, room, stream->router));
    SHARD_CHECK(MakeRows(tokens, spec_.width, room, encoded_));
    SHARD_CHECK(MakeRows(tokens, spec_.width, room, whole_));
    return Embed();
  }

  uint32_t layers() const override { return spec_.layers; }
  const Calibration& text() const override { return text_; }

  Result<EncodedLayer> Encode(uint32_t layer) override {
    EncodedLayer encoded;
    encoded.outcome.layer = layer;
    if (layer == 0) SHARD_CHECK(EncodeEmbedding(encoded));
    SHARD_CHECK(OpenLayer(layer));
    if (layer == layers()) {
      SHARD_CHECK(EncodeOutput(encoded));
      return encoded;
    }
    for (const HostTensor* tensor : TrunkTensorsOf(layer)) pending_.insert(tensor);
    SHARD_CHECK(EncodePending(encoded));
    SHARD_CHECK(RunLayer(layer, encoded, /*known=*/false));
    // What no pass multiplies is encoded as it would be without calibration.
    for (const HostTensor* tensor : std::exchange(pending_, {})) {
      ++encoded.outcome.matrices;
      ++encoded.outcome.unseen;
      SHARD_CHECK(EncodeWhole(*tensor, encoded));
    }
    return encoded;
  }

  Status Replay(uint32_t layer, const EncodedLayer& encoded) override {
    if (layer == 0) SHARD_CHECK(StartFromEmbedding(encoded));
    SHARD_CHECK(OpenLayer(layer));
    if (layer == layers()) return Ok();
    for (const HostTensor* tensor : TrunkTensorsOf(layer)) {
      const auto found = encoded.tensors.find(tensor->name);
      if (found != encoded.tensors.end()) SHARD_CHECK(PutTensor(*tensor, found->second));
    }
    EncodedLayer copy = encoded;
    return RunLayer(layer, copy, /*known=*/true);
  }

 private:
  ProductWatch& watch() const { return input_.watch; }

  // Whether rows of consecutive tokens are held out.
  auto HeldOutFrom(uint64_t first) const {
    return [this, first](size_t row) -> bool { return held_out_[first + row]; };
  }

  static Status MakeRows(uint64_t count, uint32_t width, RowRoom& room,
                         std::optional<RowStore>& store) {
    SHARD_TRY(RowStore made, RowStore::Make(count, width, room));
    store.emplace(std::move(made));
    return Ok();
  }

  Status Embed() {
    SHARD_TRY(LayerPass pass, LayerPass::Open(model_, 0, windows_.room));
    std::vector<float> stream;
    for (const WindowBatch& batch : windows_.batches) {
      stream.resize(batch.tokens * spec_.width);
      SHARD_CHECK(pass.Embed(batch.windows, stream));
      SHARD_CHECK(encoded_->Write(batch.first, stream));
      SHARD_CHECK(whole_->Write(batch.first, stream));
    }
    return Ok();
  }

  // ---- The embedding

  // The embedding has no inputs. All columns count alike: weights from the measured effect of
  // random errors on the output did no better, and ggml's own weights, which grow with the value,
  // double the divergence that the embedding costs.
  Status EncodeEmbedding(EncodedLayer& encoded) {
    const HostTensor* const embedding = model_.weights().FindTrunk(kEmbeddingTensor);
    if (embedding == nullptr || !input_.types.contains(kEmbeddingTensor)) return Ok();
    const size_t columns = embedding->shape.back();
    const FeedbackFactor alike = FeedbackFactor::Alike(columns);
    const std::vector<std::vector<float>> importances = {std::vector<float>(columns, 1), {}};
    const std::vector<float> weights = DecodedRows(*embedding, 0, RowsOf(*embedding));
    encoded.tensors[kEmbeddingTensor] = EncodeWithFeedback({weights, columns, TypeOf(*embedding)},
                                                           alike, importances, options_.jobs);
    return StartFromEmbedding(encoded);
  }

  // Sets the encoded stream to the encoded embeddings.
  Status StartFromEmbedding(const EncodedLayer& encoded) {
    const auto found = encoded.tensors.find(kEmbeddingTensor);
    if (found == encoded.tensors.end()) return Ok();
    const quant::Format* const type = input_.types.find(kEmbeddingTensor)->second;
    const uint64_t row_bytes = *type->BytesFor(spec_.width);
    uint64_t token = 0;
    std::vector<float> row(spec_.width);
    for (const CalibrationWindow& window : text_.windows) {
      for (const uint32_t id : window.tokens) {
        type->decode(std::span(found->second).subspan(id * row_bytes, row_bytes), row);
        for (float& value : row) value *= spec_.embedding_scale;
        SHARD_CHECK(encoded_->Write(token++, row));
      }
    }
    return Ok();
  }

  Status OpenLayer(uint32_t layer) {
    watch().Stop();
    watch().UseEncoded(false);
    watch().Forget();
    pass_.clear();
    const uint32_t open = std::min(layer, layers() - 1);
    SHARD_TRY(LayerPass pass, LayerPass::Open(model_, open, windows_.room));
    pass_.push_back(std::move(pass));
    return layer < layers() ? source_->Enter(layer) : Ok();
  }

  std::vector<const HostTensor*> TrunkTensorsOf(uint32_t layer) const {
    std::vector<const HostTensor*> tensors;
    for (const HostTensor& tensor : model_.weights().trunk) {
      const std::optional<BlockName> name = ParseBlockName(tensor.name);
      if (name && name->block == layer && input_.types.contains(tensor.name))
        tensors.push_back(&tensor);
    }
    return tensors;
  }

  const quant::Format* TypeOf(const HostTensor& tensor) const {
    return input_.types.find(tensor.name)->second;
  }

  Status PutTensor(const HostTensor& tensor, std::span<const std::byte> bytes) {
    return watch().Put(tensor, TypeOf(tensor), bytes, model_.executor());
  }

  // ---- The trunk of a layer

  // Runs a batch of a stream through a part of the layer, and throws away the result: up to the
  // experts, or what follows their sum, or all of a layer without any.
  Status Probe(const WindowBatch& batch, bool encoded) {
    if (!after_experts_) return RunToExperts(batch, encoded, /*keep=*/false);
    return AddExperts(batch, encoded, /*keep=*/false);
  }

  // Encodes the pending tensors that the passes of Probe multiply.
  Status EncodePending(EncodedLayer& encoded) {
    while (!pending_.empty()) {
      SHARD_CHECK(CheckInterrupt());
      watch().SetPending(pending_);
      watch().FindGroups();
      SHARD_CHECK(Probe(windows_.batches.front(), true));
      std::vector<InputGroup>& groups = watch().groups();
      if (groups.empty()) break;
      SHARD_TRY(std::vector<MomentPair> moments, MeasureGroups(groups));
      SHARD_CHECK(EncodeGroups(groups, std::move(moments), encoded));
    }
    watch().Stop();
    return Ok();
  }

  Status EncodeWhole(const HostTensor& tensor, EncodedLayer& encoded) {
    const std::vector<float> weights = DecodedRows(tensor, 0, RowsOf(tensor));
    std::vector<std::byte>& bytes = encoded.tensors[tensor.name];
    bytes = EncodePlainly({weights, tensor.shape.back(), TypeOf(tensor)}, {}, options_.jobs);
    return PutTensor(tensor, bytes);
  }

  static uint64_t RowsOf(const HostTensor& tensor) {
    uint64_t rows = 1;
    for (size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) rows *= tensor.shape[axis];
    return rows;
  }

  // Both streams once, for the inputs of the groups' matrices.
  Result<std::vector<MomentPair>> MeasureGroups(std::vector<InputGroup>& groups) {
    std::vector<MomentPairSums> sums;
    for (const InputGroup& group : groups)
      sums.emplace_back(group.parts.front().columns, options_.jobs);
    std::vector<std::vector<float>> own(groups.size());
    for (const WindowBatch& batch : windows_.batches) {
      SHARD_CHECK(CheckInterrupt());
      watch().CollectRows();
      SHARD_CHECK(Probe(batch, true));
      for (size_t i = 0; i < groups.size(); ++i) own[i] = std::move(groups[i].rows);
      watch().CollectRows();
      SHARD_CHECK(Probe(batch, false));
      for (size_t i = 0; i < groups.size(); ++i) {
        const size_t columns = groups[i].parts.front().columns;
        // Matrices that are not multiplied with every token are encoded plainly.
        if (own[i].size() != batch.tokens * columns || groups[i].rows.size() != own[i].size())
          continue;
        sums[i].Add(own[i], groups[i].rows, HeldOutFrom(batch.first));
      }
      Advance(batch.tokens);
    }
    watch().Stop();
    std::vector<MomentPair> moments;
    for (MomentPairSums& one : sums) moments.push_back(one.Finish());
    return moments;
  }

  Status EncodeGroups(const std::vector<InputGroup>& groups, std::vector<MomentPair> moments,
                      EncodedLayer& encoded) {
    std::map<const HostTensor*, uint64_t> rows_done;
    for (size_t i = 0; i < groups.size(); ++i) {
      std::vector<const quant::Format*> types;
      for (const MatrixPart& part : groups[i].parts) types.push_back(TypeOf(*part.tensor));
      const MatrixEncoder encoder(std::move(moments[i]), types, {}, options_);
      for (const MatrixPart& part : groups[i].parts) {
        const HostTensor& tensor = *part.tensor;
        const quant::Format* const type = TypeOf(tensor);
        const uint64_t row_bytes = *type->BytesFor(part.columns);
        std::vector<std::byte>& whole = encoded.tensors[tensor.name];
        whole.resize(RowsOf(tensor) * row_bytes);
        const std::vector<float> weights = DecodedRows(tensor, part.first_row, part.rows);
        const std::vector<std::byte> bytes =
            encoder.Encode({weights, part.columns, type}, encoded.outcome);
        std::copy(bytes.begin(), bytes.end(),
                  whole.begin() + static_cast<ptrdiff_t>(part.first_row * row_bytes));
        rows_done[&tensor] += part.rows;
      }
    }
    for (const auto& [tensor, rows] : rows_done) {
      pending_.erase(tensor);
      // A matrix of which some rows are never used, or that is multiplied in overlapping parts.
      if (rows != RowsOf(*tensor)) {
        ++encoded.outcome.unseen;
        SHARD_CHECK(EncodeWhole(*tensor, encoded));
        continue;
      }
      SHARD_CHECK(PutTensor(*tensor, encoded.tensors[tensor->name]));
    }
    return Ok();
  }

  // ---- The rest of a layer

  // Runs both streams through the layer. Its experts are encoded on the way, or are `known`.
  Status RunLayer(uint32_t layer, EncodedLayer& encoded, bool known) {
    watch().Stop();
    if (source_->table().empty()) return RunDense();
    for (const WindowBatch& batch : windows_.batches) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_CHECK(RunToExperts(batch, /*encoded=*/true, /*keep=*/true));
      SHARD_CHECK(RunToExperts(batch, /*encoded=*/false, /*keep=*/true));
      Advance(batch.tokens);
    }
    const ExpertLayer experts{model_, watch(), input_.types, options_, *source_,
                              own_,   full_,   held_out_,    layer,    input_.exchange};
    SHARD_CHECK(EncodeExperts(experts, known, encoded.outcome, encoded.tensors));
    after_experts_ = true;
    SHARD_CHECK(EncodePending(encoded));
    after_experts_ = false;
    for (const WindowBatch& batch : windows_.batches) {
      SHARD_CHECK(AddExperts(batch, /*encoded=*/true, /*keep=*/true));
      SHARD_CHECK(AddExperts(batch, /*encoded=*/false, /*keep=*/true));
      Advance(batch.tokens);
    }
    return Ok();
  }

  Status RunDense() {
    for (const WindowBatch& batch : windows_.batches) {
      SHARD_CHECK(CheckInterrupt());
      for (RowStore* store : {&*encoded_, &*whole_}) {
        stream_.resize(batch.tokens * spec_.width);
        SHARD_CHECK(store->Read(batch.first, stream_));
        watch().UseEncoded(store == &*encoded_);
        SHARD_CHECK(pass_[0].RunLayer(batch.windows, {}, stream_));
        SHARD_CHECK(store->Write(batch.first, stream_));
      }
      Advance(batch.tokens);
    }
    return Ok();
  }

  Status RunToExperts(const WindowBatch& batch, bool encoded, bool keep) {
    RowStore& store = encoded ? *encoded_ : *whole_;
    ExpertStream& stream = encoded ? own_ : full_;
    stream_.resize(batch.tokens * spec_.width);
    SHARD_CHECK(store.Read(batch.first, stream_));
    watch().UseEncoded(encoded);
    if (source_->table().empty()) return pass_[0].RunLayer(batch.windows, {}, stream_);
    inputs_.resize(batch.tokens * spec_.expert_width());
    shared_.resize(apart_ ? 0 : stream_.size());
    router_.resize(apart_ ? stream_.size() : 0);
    SHARD_CHECK(pass_[0].RunToExperts(batch.windows, {stream_, inputs_, router_, shared_}));
    if (!keep) return Ok();
    for (size_t i = 0; i < shared_.size(); ++i) stream_[i] += spec_.ScaleOfExperts() * shared_[i];
    SHARD_CHECK(stream.inputs->Write(batch.first, inputs_));
    if (apart_) SHARD_CHECK(stream.router->Write(batch.first, router_));
    return store.Write(batch.first, stream_);
  }

  Status AddExperts(const WindowBatch& batch, bool encoded, bool keep) {
    RowStore& store = encoded ? *encoded_ : *whole_;
    const RowStore& sums = encoded ? *own_.sums : *full_.sums;
    stream_.resize(batch.tokens * spec_.width);
    inputs_.resize(batch.tokens * sums.width());
    SHARD_CHECK(store.Read(batch.first, stream_));
    SHARD_CHECK(sums.Read(batch.first, inputs_));
    watch().UseEncoded(encoded);
    if (apart_) {
      SHARD_CHECK(pass_[0].AddExperts(batch.windows, inputs_, stream_));
    } else {
      for (size_t i = 0; i < stream_.size(); ++i) stream_[i] += spec_.ScaleOfExperts() * inputs_[i];
    }
    return keep ? store.Write(batch.first, stream_) : Ok();
  }

  // ---- The output

  Status EncodeOutput(EncodedLayer& encoded) {
    const HostTensor* const output = model_.weights().FindTrunk("output.weight");
    if (output == nullptr || !input_.types.contains(output->name)) return Ok();
    const size_t columns = output->shape.back();
    MomentPairSums sums(columns, options_.jobs);
    std::vector<float> own, full;
    for (const WindowBatch& batch : windows_.batches) {
      stream_.resize(batch.tokens * spec_.width);
      own.resize(stream_.size());
      full.resize(stream_.size());
      SHARD_CHECK(encoded_->Read(batch.first, stream_));
      SHARD_CHECK(pass_[0].NormOutputs(stream_, own));
      SHARD_CHECK(whole_->Read(batch.first, stream_));
      SHARD_CHECK(pass_[0].NormOutputs(stream_, full));
      sums.Add(own, full, HeldOutFrom(batch.first));
      Advance(batch.tokens);
    }
    const quant::Format* const type = TypeOf(*output);
    const MatrixEncoder encoder(sums.Finish(), std::span(&type, 1), {}, options_);
    const std::vector<float> weights = DecodedRows(*output, 0, RowsOf(*output));
    encoded.tensors[output->name] = encoder.Encode({weights, columns, type}, encoded.outcome);
    return Ok();
  }

  void Advance(uint64_t tokens) {
    done_ += tokens;
    if (progress_) progress_(done_, std::max(done_, text_.tokens * (4 * layers() + 1)));
  }

  KeptPages pages_{KeptPages::kAll};
  const CalibrateInput& input_;
  const CalibrateOptions& options_;
  OnProgress progress_;
  const DeviceModel& model_;
  const ModelSpec& spec_;
  bool apart_;
  Calibration text_;
  std::vector<bool> held_out_;  // by token
  WindowBatches windows_;
  std::optional<SourceLayers> source_;
  std::vector<LayerPass> pass_;              // of the current layer
  std::optional<RowStore> encoded_, whole_;  // the streams, [T, width]
  ExpertStream own_, full_;
  std::vector<float> stream_, inputs_, shared_, router_;
  std::set<const HostTensor*> pending_;  // of the layer's trunk, not encoded yet
  bool after_experts_ = false;           // what Probe runs
  uint64_t done_ = 0;
};

}  // namespace

Result<Calibration> CalibrationTextOf(std::span<const TokenSession> sessions,
                                      const CalibrateOptions& options,
                                      std::optional<uint32_t> bos) {
  RefitOptions windows;
  windows.tokens = options.tokens;
  windows.context = options.context;
  windows.fold = options.fold;
  return MakeCalibration(sessions, {}, windows, bos);
}

Result<std::unique_ptr<Calibrator>> Calibrator::Open(const CalibrateInput& input,
                                                     const CalibrateOptions& options,
                                                     OnProgress progress) {
  if (input.model.spec().chunks.experts > 0)
    return Error{Code::kUnsupported,
                 Cat(input.model.weights().path, ": --calibrate: expected experts of their own, ",
                     "found experts that share chunks (", input.model.spec().architecture, ")")};
  const ModelSpec& spec = input.model.spec();
  if (spec.stream_width() != spec.width)
    return Error{Code::kUnsupported,
                 Cat(input.model.weights().path, ": --calibrate: expected one residual stream, ",
                     "found ", spec.stream_width() / spec.width, " (", spec.architecture, ")")};
  auto run = std::make_unique<CalibrateRun>(input, options, std::move(progress));
  SHARD_CHECK(run->Start());
  return Result<std::unique_ptr<Calibrator>>(std::move(run));
}

}  // namespace moepack::runtime
