#include "runtime-shim/refit/refit.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "libshard/base/files/temporary_directory.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/model/layer_weights.h"
#include "runtime-shim/profile/identity.h"
#include "runtime-shim/refit/importance.h"
#include "runtime-shim/refit/kept_pages.h"
#include "runtime-shim/refit/refill.h"
#include "runtime-shim/refit/source_layers.h"
#include "runtime-shim/refit/streams.h"
#include "runtime-shim/refit/twins.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {
namespace {

// The share of a refit's memory that rows of tokens may take.
constexpr uint64_t kShareOfRows = 2;
// A token's error counts at most as much as this many typical tokens: models produce huge values
// for the first token of a text and the like, which alone would determine a least-squares fit.
constexpr float kMostOfToken = 64;

// Weights that limit every token to kMostOfToken times the median; or make all tokens equal, where
// a norm of the experts' sum does.
std::vector<float> TamingWeights(const std::vector<float>& squares, bool equal) {
  std::vector<float> sorted = squares;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const float most = equal ? *middle : kMostOfToken * *middle;
  std::vector<float> weights;
  for (const float square : squares)
    weights.push_back((equal && square > 0) || (square > most && most > 0) ? most / square : 1);
  return weights;
}

Status CheckTopK(const Plan& plan, uint32_t top_k) {
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    for (const auto& [layer, count] : plan.layers) {
      const size_t eligible = Eligible(plan, group, layer).size();
      if (top_k <= eligible) continue;
      return Error{Code::kInvalidArgument,
                   Cat("--top-k: expected at most ", eligible, ", the experts of group ", group,
                       " in layer ", layer, ", found ", top_k)};
    }
  }
  return Ok();
}

class RefitRun {
 public:
  static Result<std::unique_ptr<RefitRun>> Open(const RefitInput& input,
                                                const RefitOptions& options,
                                                const RefitEvents& events) {
    auto run = std::unique_ptr<RefitRun>(new RefitRun(input, options, events));
    if (input.moments != nullptr) input.moments->Count(false);
    SHARD_TRY(run->text_, CheckRefit(input, options));
    SHARD_TRY(SourceLayers source, SourceLayers::Make(run->model_));
    run->source_.emplace(std::move(source));
    SHARD_TRY(run->room_, RowRoom::Of(options.memory / kShareOfRows, options.scratch));
    run->NumberStreams();
    SHARD_TRY(Streams streams,
              Streams::Make(run->model_, run->text_, run->nodes_, options.memory, run->room_));
    run->streams_.emplace(std::move(streams));
    run->streams_->WatchTokens([own = run.get()](uint64_t tokens) { own->Advance(tokens); });
    run->CountWork();
    return run;
  }

  // Layers without experts have no outcomes.
  bool HasExperts(uint32_t layer) const { return source_->IsMoe(layer); }
  uint32_t layers() const { return model_.spec().layers; }

  // Runs a layer. `stored`, if given, has its experts.
  Result<RefittedLayer> RunLayer(uint32_t layer, const RefitStore* stored) {
    RefittedLayer done;
    SHARD_CHECK(source_->Enter(layer));
    SHARD_CHECK(streams_->Open(layer));
    SHARD_CHECK(streams_->RunWhole(source_->table()));
    std::map<uint32_t, LayerOutcome> outcomes;
    for (const uint32_t group : groups_) {
      if (!HasExperts(layer)) {
        if (IsFirst(group)) SHARD_CHECK(RunDense(group));
        continue;
      }
      if (IsFirst(group)) {
        SHARD_TRY(outcomes[group], RunNodeLayer(layer, group, stored, done));
      } else {
        outcomes[group] = outcomes[twins_[group]];
        CopyTwin(group, outcomes[group].outcome, done);
      }
      if (events_.refitted) events_.refitted(outcomes[group], stored != nullptr);
      done.outcomes.push_back(outcomes[group].outcome);
    }
    return done;
  }

  // For the layers that were run: of all groups together, and of each group of a part.
  Status WriteImportances(const RefitRecord& record, const std::filesystem::path& directory) {
    if (input_.groups) SHARD_CHECK(WriteGroupImportances(record, directory));
    SHARD_TRY(ImatrixEntries experts, EntriesOfAll());
    SHARD_TRY(ImatrixEntries trunk, TrunkEntries({}));
    return WriteMatrix(record, directory / kRefitImatrix, std::move(experts), std::move(trunk));
  }

 private:
  RefitRun(const RefitInput& input, const RefitOptions& options, const RefitEvents& events)
      : input_(input),
        options_(options),
        events_(events),
        model_(static_cast<const DeviceModel&>(input.model)),
        products_(model_.executor(), options.jobs) {}

  // What `join` adds up to the matrix of all groups.
  Status WriteGroupImportances(const RefitRecord& record, const std::filesystem::path& directory) {
    for (const uint32_t group : groups_) {
      ImatrixEntries trunk;
      // The matrices of the trunk count once for groups that are refitted together.
      if (first_twins_[group] == group) {
        SHARD_TRY(trunk, TrunkEntries(streams_of_.at(group)));
      }
      SHARD_CHECK(WriteMatrix(record, directory / RefitGroupImatrix(group),
                              importances_[group].entries(), std::move(trunk)));
    }
    return Ok();
  }

  // Of the experts of all groups that are refitted, added up as a whole refit does: each with its
  // twins behind it.
  Result<ImatrixEntries> EntriesOfAll() {
    if (!input_.groups) return importances_[0].entries();
    ImatrixEntries all;
    for (const uint32_t first : groups_) {
      for (const auto& [group, twin] : twins_) {
        if (twin != first) continue;
        SHARD_CHECK(AddImatrixEntries(Cat("group ", group), importances_[group].entries(), all));
      }
    }
    return all;
  }

  void NumberStreams() {
    first_twins_ = FirstTwins(input_.plan, text_);
    for (uint32_t group = 0; group < first_twins_.size() && !input_.groups; ++group)
      groups_.push_back(group);
    if (input_.groups) groups_ = *input_.groups;
    std::map<uint32_t, uint32_t> refitted;  // of each set of twins, the one with a stream
    for (const uint32_t group : groups_) {
      twins_[group] = refitted.try_emplace(first_twins_[group], group).first->second;
      streams_of_[group] = IsFirst(group) ? nodes_++ : streams_of_.at(twins_[group]);
    }
  }
  bool IsFirst(uint32_t group) const { return twins_.at(group) == group; }

  // Of one stream, or of all.
  Result<ImatrixEntries> TrunkEntries(std::optional<size_t> stream) const {
    if (input_.moments == nullptr) return ImatrixEntries();
    return stream ? input_.moments->EntriesOf(*stream) : input_.moments->Entries();
  }

  Status WriteMatrix(const RefitRecord& record, const std::filesystem::path& path,
                     ImatrixEntries experts, ImatrixEntries trunk) const {
    Imatrix imatrix;
    imatrix.entries = std::move(experts);
    imatrix.entries.merge(trunk);
    for (const CalibrationText& text : record.calibration) imatrix.datasets.push_back(text.name);
    imatrix.chunks = static_cast<uint32_t>(text_.windows.size());
    imatrix.chunk_tokens = options_.context;
    SHARD_TRY(imatrix.router_digest, RouterDigestOf(model_.weights()));
    return WriteImatrix(path.string(), imatrix);
  }

  Result<LayerOutcome> RunNodeLayer(uint32_t layer, uint32_t group, const RefitStore* stored,
                                    RefittedLayer& done) {
    const size_t stream = streams_of_.at(group);
    SHARD_CHECK(Observed(stream, [&] { return streams_->RunToExperts(stream); }));
    SHARD_TRY(NodeLayer node, MakeNode(layer, group));
    SHARD_TRY(LayerOutcome outcome, stored ? Replay(*stored, node) : Refit(node));
    // Every twin has rows of its own in the matrix, since each is quantized as a bundle of its own.
    for (const auto& [twin, first] : twins_) {
      if (first != group) continue;
      node.experts.group = twin;
      RefitImportance& importance = importances_[input_.groups ? twin : 0];
      SHARD_CHECK(importance.Add(products_, source_->sets(), node, outcome.outcome.accepted));
    }
    node.experts.group = group;
    if (outcome.outcome.accepted) done.accepted.push_back(Changed(std::move(node)));
    // The node's stream goes on with the refitted experts, so later layers correct what is still
    // wrong.
    SHARD_CHECK(Observed(stream, [&] { return streams_->AddOutputs(stream); }));
    return outcome;
  }

  Status RunDense(uint32_t group) {
    const size_t stream = streams_of_.at(group);
    return Observed(stream, [&] { return streams_->RunDense(stream); });
  }

  // Gives a group what its twin got.
  void CopyTwin(uint32_t group, RefitOutcome& outcome, RefittedLayer& done) const {
    outcome.group = group;
    const auto twin =
        std::find_if(done.accepted.begin(), done.accepted.end(),
                     [&](const RefittedExperts& one) { return one.group == twins_.at(group); });
    if (twin == done.accepted.end()) return;
    RefittedExperts copy = *twin;
    copy.group = group;
    done.accepted.push_back(std::move(copy));
  }

  // Runs a node's stream with its products counted for the importance matrix.
  Status Observed(size_t stream, const std::function<Status()>& run) {
    if (input_.moments != nullptr) input_.moments->CountStream(stream);
    const Status done = run();
    if (input_.moments != nullptr) input_.moments->Count(false);
    return done;
  }

  Result<NodeLayer> MakeNode(uint32_t layer, uint32_t group) {
    NodeLayer node;
    const ModelSpec& spec = model_.spec();
    node.routing = spec.layer[layer].router;
    if (options_.top_k > 0) node.routing.top_k = options_.top_k;
    node.form = {spec.ExpertActivationOf(layer), spec.weigh_inputs};
    const ExpertIds ids = Eligible(input_.plan, group, layer);
    const ExpertIds slots = RefitSlots(input_.plan, group, layer);
    SHARD_TRY(node.experts, ReadSourceExperts(model_.weights(), source_->sets(), layer, ids));
    node.experts.group = group;
    for (const uint32_t id : ids) {
      node.fixed.push_back(!std::binary_search(slots.begin(), slots.end(), id));
      node.scales.push_back(source_->table()[id]->output_scale);
    }
    node.router_inputs = &streams_->rows().inputs_of_router();
    node.inputs = &streams_->rows().inputs;
    node.targets = &streams_->rows().targets;
    node.outputs = &streams_->rows().outputs;
    node.least_tokens = options_.least_tokens;
    node.activation_memory = options_.activation_memory();
    SetTokenWeights(group, layer, node);
    return node;
  }

  void SetTokenWeights(uint32_t group, uint32_t layer, NodeLayer& node) const {
    const bool normed = model_.spec().parallel_experts || model_.spec().norms_after ||
                        model_.trunk().layers[layer].space_norm;
    const std::vector<float> taming = TamingWeights(streams_->target_squares(), normed);
    node.fit_weights.assign(text_.tokens, 0);
    node.fold_weights.assign(text_.tokens, 0);
    size_t token = 0;
    for (const CalibrationWindow& window : text_.windows) {
      std::vector<float>& weights = window.kept_back ? node.fold_weights : node.fit_weights;
      for (size_t i = 0; i < window.tokens.size(); ++i, ++token)
        weights[token] = taming[token] * text_.WeightOf(window, group);
    }
  }

  Result<LayerOutcome> Refit(NodeLayer& node) {
    SHARD_TRY(
        LayerOutcome outcome,
        RefitNodeLayer(products_, options_,
                       NeuronSource{source_->table(), &model_.weights(), source_->sets()}, node));
    Advance(text_.tokens * options_.steps.size());
    return outcome;
  }

  // Puts the stored experts in place of the source's.
  Result<LayerOutcome> Replay(const RefitStore& stored, NodeLayer& node) {
    LayerOutcome outcome;
    const RefitOutcome* const found = stored.record().Find(node.experts.layer, node.experts.group);
    if (found != nullptr) outcome.outcome = *found;
    SHARD_CHECK(PutStored(stored, node.experts));
    SHARD_CHECK(RouteNode(products_, node));
    SHARD_CHECK(RunNode(products_, node));
    Advance(text_.tokens * options_.steps.size());
    return outcome;
  }

  // The experts that are not fixed. They are moved, not copied, if that is all.
  static RefittedExperts Changed(NodeLayer&& node) {
    std::vector<size_t> places;
    for (size_t place = 0; place < node.fixed.size(); ++place) {
      if (!node.fixed[place]) places.push_back(place);
    }
    if (places.size() == node.fixed.size()) return std::move(node.experts);
    return TakeExperts(node.experts, places);
  }

  void CountWork() {
    for (uint32_t layer = 0; layer < layers(); ++layer)
      all_ += text_.tokens * (1 + nodes_ * (HasExperts(layer) ? 2 + options_.steps.size() : 1));
  }

  void Advance(uint64_t tokens) {
    done_ += tokens;
    if (events_.progress) events_.progress(done_, all_);
  }

  KeptPages pages_{KeptPages::kOf32MiB};
  const RefitInput& input_;
  const RefitOptions& options_;
  const RefitEvents& events_;
  const DeviceModel& model_;
  Products products_;
  Calibration text_;
  RowRoom room_;
  std::optional<SourceLayers> source_;
  std::vector<uint32_t> groups_;           // that are refitted
  std::vector<uint32_t> first_twins_;      // FirstTwins
  std::map<uint32_t, uint32_t> twins_;     // of each refitted group: the first of those
  std::map<uint32_t, size_t> streams_of_;  // the number of each refitted group's stream
  size_t nodes_ = 0;                       // number of streams
  std::optional<Streams> streams_;
  std::map<uint32_t, RefitImportance> importances_;  // one, or one for each group of a part
  uint64_t done_ = 0, all_ = 0;
};

}  // namespace

Result<Calibration> CheckRefit(const RefitInput& input, const RefitOptions& options) {
  if (input.model.spec().chunks.experts > 0)
    return Error{Code::kUnsupported,
                 Cat(input.model.weights().path, ": refit: expected experts of their own, found ",
                     "experts that share chunks (", input.model.spec().architecture, ")")};
  if (input.model.spec().streams.count > 0)
    return Error{Code::kUnsupported,
                 Cat(input.model.weights().path, ": refit: expected one residual stream, found ",
                     input.model.spec().streams.count, " (", input.model.spec().architecture, ")")};
  SHARD_CHECK(CheckSteps("steps", options.steps));
  SHARD_CHECK(CheckTopK(input.plan, options.top_k));
  std::error_code error;
  if (options.scratch.empty()) SHARD_CHECK(TemporaryDirectory());
  if (!options.scratch.empty() && !std::filesystem::is_directory(options.scratch, error))
    return Error{Code::kNotFound,
                 Cat(Shown(options.scratch), ": expected a directory, found none")};
  return MakeCalibration(input.sessions, input.weights, options, input.bos);
}

Status RefitModel(const RefitInput& input, const RefitOptions& options, const RefitEvents& events,
                  RefitStoreWriter& store, const std::filesystem::path& directory) {
  std::optional<RefitStore> before;
  if (!store.record().outcomes.empty()) {
    SHARD_TRY(before, RefitStore::Open(directory));
  }
  SHARD_TRY(const auto run, RefitRun::Open(input, options, events));
  for (uint32_t layer = 0; layer < run->layers(); ++layer) {
    const bool there = run->HasExperts(layer) && store.Has(layer);
    SHARD_TRY(RefittedLayer done, run->RunLayer(layer, there ? &*before : nullptr));
    if (there || !run->HasExperts(layer)) continue;
    SHARD_CHECK(store.Add(std::move(done.outcomes), done.accepted));
  }
  return run->WriteImportances(store.record(), directory);
}

Result<RefittedLayer> RedoLayer(const RefitInput& input, const RefitOptions& options,
                                const RefitStore& store, uint32_t layer) {
  if (!store.record().HasLayer(layer))
    return Error{Code::kNotFound, Cat(store.directory().string(), ": layer ", layer,
                                      ": expected one that was refitted, found none")};
  const RefitEvents nobody;
  SHARD_TRY(const auto run, RefitRun::Open(input, options, nobody));
  // A layer's inputs depend on all refitted layers before it; these come from the store.
  for (uint32_t earlier = 0; earlier < layer; ++earlier)
    SHARD_CHECK(run->RunLayer(earlier, run->HasExperts(earlier) ? &store : nullptr));
  return run->RunLayer(layer, nullptr);
}

}  // namespace moepack::runtime
