#include "tools/commands/calibrate_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/text/text.h"
#include "libshard/calibrate/calibrated_store.h"
#include "libshard/recipe/recipe_types.h"
#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/estimate.h"
#include "runtime-shim/executor/observed_executor.h"
#include "runtime-shim/model/bos_token.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/commands/calibrate_groups.h"
#include "tools/commands/calibrate_share.h"
#include "tools/commands/held_out.h"
#include "tools/options/refit_arguments.h"
#include "tools/options/runtime_options.h"
#include "tools/reports/runs/refit_report.h"

namespace moepack::cli {
namespace calibrate_run {
namespace {

constexpr const char* kSuffix = ".calibrated";

runtime::TensorTypes TypesOf(const TypedGguf& typed) {
  runtime::TensorTypes types;
  for (const GgufTensor& tensor : typed.model.tensors) {
    if (IsQuantized(*tensor.type)) types.emplace(tensor.name, tensor.type);
  }
  // An embedding that is the output's matrix, too, serves two ends.
  const auto& tensors = typed.model.tensors;
  const bool tied = std::none_of(tensors.begin(), tensors.end(), [](const GgufTensor& tensor) {
    return tensor.name == "output.weight";
  });
  if (tied) types.erase(runtime::kEmbeddingTensor);
  return types;
}

runtime::CalibrateOptions OptionsFor(const CalibrateRun& run) {
  runtime::CalibrateOptions options = run.arguments.options;
  options.jobs = static_cast<uint32_t>(run.jobs);
  return options;
}

Result<std::vector<TokenSession>> ReadTexts(const CalibrateRun& run, const LoadedModel& loaded) {
  const CalibrateArguments& arguments = run.arguments;
  SHARD_TRY(std::vector<TokenSession> texts,
            ReadSessions(arguments.texts, loaded.model->vocabulary(), TokenizeAs(loaded.weights)));
  SHARD_CHECK(CheckHeldOut({arguments.held_out, arguments.force_overlap,
                            Cat("hold other texts out, or add ", arguments.force_option)},
                           loaded, texts));
  return texts;
}

// Where encoded layers go, and where those of an earlier run come from: the store. Of several tasks
// only the first one writes it; the others read what it has.
class LayersOfRun {
 public:
  // Borrows the model and the types. Errors are those of the store and of CheckEncodedFit.
  static Result<LayersOfRun> Open(const CalibrateRun& run, const LoadedModel& loaded,
                                  const runtime::TensorTypes& types, CalibratedRecord record) {
    LayersOfRun layers(run, loaded, types, std::move(record));
    if (run.task && run.task->index > 0) return layers;
    SHARD_TRY(CalibratedStoreWriter writer, CalibratedStoreWriter::Open(run.store, layers.wanted_));
    SHARD_CHECK(CheckEncodedFit(Shown(run.store), loaded, types, writer.record()));
    layers.record_ = writer.record();
    layers.writer_.emplace(std::move(writer));
    return layers;
  }

  const CalibratedRecord& record() const { return record_; }
  bool writes() const { return writer_.has_value(); }
  CalibratedStoreWriter& writer() { return *writer_; }

  Result<bool> Has(uint32_t layer) {
    if (!writes() && layer >= record_.layers.size()) SHARD_CHECK(Look());
    return layer < record_.layers.size();
  }

  // Whether all layers of that many groups are there.
  Result<bool> HasGroups(size_t groups) {
    if (!writes()) SHARD_CHECK(Look());
    const CalibratedRecord& record = writes() ? writer_->record() : record_;
    for (uint32_t group = 0; group < groups; ++group) {
      if (record.FindInGroup(group, record.layer_count - 1) == nullptr) return false;
    }
    return true;
  }

  Result<EncodedTensors> Read(uint32_t layer) const {
    if (writes()) return writer_->Read(layer);
    if (seen_ && layer < seen_->record().layers.size()) return seen_->Read(layer);
    return Error{Code::kCorrupt, Cat(Shown(run_.store), "/", kCalibratedFile, ": expected layer ",
                                     layer, ", found none")};
  }

  Status Add(const runtime::EncodedLayer& encoded) {
    if (!writes()) return Ok();
    SHARD_CHECK(writer_->Add(encoded.outcome, encoded.tensors, types_));
    record_ = writer_->record();
    return Ok();
  }

 private:
  LayersOfRun(const CalibrateRun& run, const LoadedModel& loaded, const runtime::TensorTypes& types,
              CalibratedRecord record)
      : run_(run), loaded_(loaded), types_(types), wanted_(record), record_(std::move(record)) {}

  // What the first task has written since. Nothing is used that was not checked.
  Status Look() {
    SHARD_TRY(const bool there, IsThere(fs::path(run_.store) / kCalibratedFile));
    if (!there) return Ok();
    SHARD_TRY(CalibratedStore store, CalibratedStore::Open(run_.store));
    if (store.record().layers.empty()) return Ok();  // the first task may replace it
    SHARD_CHECK(CheckSameCalibration(run_.store, wanted_, store.record()));
    SHARD_CHECK(CheckEncodedFit(Shown(run_.store), loaded_, types_, store.record()));
    record_ = store.record();
    seen_ = std::move(store);
    return Ok();
  }

  const CalibrateRun& run_;
  const LoadedModel& loaded_;
  const runtime::TensorTypes& types_;
  CalibratedRecord wanted_, record_;     // without layers; as it is
  std::optional<CalibratedStore> seen_;  // of the first task
  std::optional<CalibratedStoreWriter> writer_;
};

// Says from time to time what a task waits for.
Waiting SayWaiting(Progress& progress) {
  return [&progress, said = 0.0](const std::string& what, double seconds) mutable {
    constexpr double kEvery = 30;
    if (seconds < said) said = 0;  // another wait
    if (seconds < said + kEvery) return Ok();
    said = seconds;
    progress.Clear();
    PrintNotes({Cat("waiting for ", what, " since ", FormatElapsed(seconds),
                    ": all tasks have to run at the same time")});
    return Ok();
  };
}

class Encoding {
 public:
  Encoding(const CalibrateRun& run, runtime::Calibrator& calibrator, LayersOfRun& layers,
           Progress& progress)
      : run_(run), calibrator_(calibrator), layers_(layers), progress_(progress) {}

  Status Run() {
    for (uint32_t layer = 0; layer <= calibrator_.layers(); ++layer) {
      SHARD_TRY(const bool there, layers_.Has(layer));
      // The output's matrix is not divided.
      const bool waits = !there && layer == calibrator_.layers() && !layers_.writes();
      if (waits) SHARD_CHECK(WaitForOutput(layer));
      CalibratedOutcome outcome;
      if (there || waits) {
        SHARD_CHECK(Replay(layer));
        outcome = layers_.record().layers[layer];
      } else {
        SHARD_TRY(outcome, Encode(layer));
      }
      progress_.Clear();
      PrintMessage(CalibratedLine(layers_.record(), outcome, there));
    }
    return Ok();
  }

 private:
  Status Replay(uint32_t layer) {
    // What nothing follows needs no stream.
    if (layers_.record().finished()) return Ok();
    runtime::EncodedLayer encoded;
    SHARD_TRY(encoded.tensors, layers_.Read(layer));
    return calibrator_.Replay(layer, encoded);
  }

  Result<CalibratedOutcome> Encode(uint32_t layer) {
    SHARD_TRY(const runtime::EncodedLayer encoded, calibrator_.Encode(layer));
    SHARD_CHECK(CheckFinite(run_.named.shown(), encoded.outcome));
    SHARD_CHECK(layers_.Add(encoded));
    return encoded.outcome;
  }

  Status WaitForOutput(uint32_t layer) {
    return WaitUntil(Cat("task 0 of ", run_.task->count, ", output"), SayWaiting(progress_),
                     [&] { return layers_.Has(layer); });
  }

  const CalibrateRun& run_;
  runtime::Calibrator& calibrator_;
  LayersOfRun& layers_;
  Progress& progress_;
};

// Every task encodes some groups; the first one gathers them, and the others wait for that.
Status ShareGroups(const GroupsToEncode& work, SharedExperts& shared, LayersOfRun& layers,
                   const Waiting& waiting) {
  const size_t groups = work.groups.plan.groups.size();
  SHARD_TRY(const bool there, layers.HasGroups(groups));
  if (there) return Ok();
  SHARD_TRY(const std::vector<uint32_t> twins, FirstWithSameNode(work.groups));
  SHARD_CHECK(EncodeGroupsOfTask(work, twins, layers.record(), shared));
  if (layers.writes()) return GatherGroups(work, twins, shared, layers.writer());
  return WaitUntil(Cat("task 0 of ", shared.task().count, ", groups"), waiting,
                   [&] { return layers.HasGroups(groups); });
}

// The model's tensor of that name; null if it has none.
const runtime::HostTensor* FindTensor(const runtime::Weights& weights, const std::string& name) {
  const auto in = [&](const std::vector<runtime::HostTensor>& tensors) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(),
                     [&](const runtime::HostTensor& tensor) { return tensor.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  };
  if (const runtime::HostTensor* trunk = in(weights.trunk)) return trunk;
  if (weights.later != nullptr) return in(weights.later->tensors);
  return nullptr;
}

// Of the tensor, or of `experts` along its first axis; 0 if its rows cannot have the type.
uint64_t BytesIn(const runtime::HostTensor& tensor, const quant::Format& type,
                 std::optional<size_t> experts) {
  if (tensor.shape.empty()) return 0;
  uint64_t rows = experts.value_or(tensor.shape[0]);
  if (tensor.shape.size() == 1) rows = 1;
  for (size_t axis = 1; axis + 1 < tensor.shape.size(); ++axis) rows *= tensor.shape[axis];
  return rows * type.BytesFor(tensor.shape.back()).value_or(0);
}

// Tensors that no layer of the run has: blocks that do not run.
void NoteTheRest(const runtime::TensorTypes& types, const CalibratedRecord& record) {
  std::vector<std::string> names;
  for (const auto& [name, type] : types) {
    if (record.Find(name).tensor == nullptr) names.push_back(name);
  }
  if (names.empty()) return;
  PrintNotes({Cat(Plural(names.size(), "tensor"), " encoded without feedback, because no text ",
                  "passes through them: ", names.front(), names.size() > 1 ? ", ..." : "")});
}

// `needed` are the tokens that are enough (TokensForCalibration).
void WarnOfText(const std::vector<TokenSession>& texts, uint64_t tokens, uint64_t needed) {
  const bool alike = std::all_of(texts.begin(), texts.end(), [&](const TokenSession& session) {
    return session.bucket == texts.front().bucket;
  });
  if (alike && !texts.front().bucket.empty())
    PrintWarnings({Cat("one bucket: all calibration text is ", Quoted(texts.front().bucket),
                       "; other text may gain less")});
  if (tokens < needed)
    PrintWarnings(
        {Cat("few tokens: expected about ", FormatCount(needed), " (", runtime::kTokensPerInput,
             " per input of each expert), found ", FormatCount(tokens),
             "; matrices that feedback does not help are encoded ", "without it")});
}

void WarnOfExecutor(runtime::Executor& executor) {
  PrintWarnings(WarnWithoutAlgebra(executor, "calibration",
                                   "the device sums second moments in more and smaller pieces"));
}

Result<CalibrateModel> LoadFor(const CalibrateRun& run) {
  const runtime::NodeOptions options = OptionsToCalibrate(
      run.named.model, run.jobs, run.arguments.options.executor, run.arguments.device);
  SHARD_TRY(std::shared_ptr<runtime::Executor> executor, OpenExecutor(options));
  return LoadForCalibration(run.source, options, std::move(executor));
}

}  // namespace
}  // namespace calibrate_run

std::string CalibratedStoreBeside(const std::string& output) {
  return output.substr(0, output.find_last_not_of('/') + 1) + calibrate_run::kSuffix;
}

runtime::NodeOptions OptionsToCalibrate(const ModelOptions& model, size_t jobs,
                                        const std::string& executor, uint32_t device) {
  runtime::NodeOptions options;
  options.load.model = model;
  options.load.jobs = static_cast<uint32_t>(jobs);
  // A calibration goes through the model once, so it never needs the experts of two layers.
  options.load.experts_later = true;
  options.executor = executor;
  options.device.device = device;
  options.device.threads = options.load.jobs;
  options.device.packed = true;
  return options;
}

Result<CalibrateModel> LoadForCalibration(const moepack::Source& source,
                                          const runtime::NodeOptions& options,
                                          std::shared_ptr<runtime::Executor> executor) {
  CalibrateModel out;
  out.watch = std::make_unique<runtime::ProductWatch>();
  executor = std::make_shared<runtime::ObservedExecutor>(std::move(executor), *out.watch);
  SHARD_TRY(std::shared_ptr<const runtime::Weights> weights, LoadSource(source, options));
  SHARD_TRY(out.loaded, LoadModel(std::move(weights), std::move(executor)));
  out.watch->SetWeights(*out.loaded.weights);
  return out;
}

namespace calibrate_run {
namespace {

Error DoesNotFit(const std::string& thing, const std::string& expected, const std::string& found) {
  return Error{Code::kMismatch, Cat(thing, ": expected ", expected, ", found ", found),
               "the store is corrupt, or of another model"};
}

}  // namespace
}  // namespace calibrate_run

Status CheckLayerFit(const std::string& where, const LoadedModel& loaded,
                     const runtime::TensorTypes& types, const CalibratedOutcome& layer,
                     std::optional<size_t> experts) {
  using namespace calibrate_run;
  for (const CalibratedTensor& tensor : layer.tensors) {
    const std::string thing = Cat(where, ": tensor ", Quoted(tensor.name));
    const auto type = types.find(tensor.name);
    const runtime::HostTensor* const own = FindTensor(*loaded.weights, tensor.name);
    if (own == nullptr || type == types.end())
      return DoesNotFit(thing, "one that is calibrated", "another");
    if (type->second != tensor.type)
      return DoesNotFit(thing, std::string(type->second->name), std::string(tensor.type->name));
    const uint64_t bytes = BytesIn(*own, *tensor.type, experts);
    if (bytes != tensor.bytes) return DoesNotFit(thing, Cat(bytes, " bytes"), Cat(tensor.bytes));
  }
  return Ok();
}

Status CheckEncodedFit(const std::string& where, const LoadedModel& loaded,
                       const runtime::TensorTypes& types, const CalibratedRecord& record) {
  const uint32_t layers = loaded.model->spec().layers;
  if (record.layer_count != layers)
    return calibrate_run::DoesNotFit(Cat(where, ": layers"), Cat(layers), Cat(record.layer_count));
  for (const CalibratedOutcome& layer : record.layers)
    SHARD_CHECK(CheckLayerFit(where, loaded, types, layer, {}));
  const size_t groups = record.groups ? record.groups->layers.size() : 0;
  for (size_t group = 0; group < groups; ++group) {
    for (const CalibratedOutcome& layer : record.groups->layers[group])
      SHARD_CHECK(
          CheckLayerFit(Cat(where, ": group ", group), loaded, types, layer, layer.experts.size()));
  }
  return Ok();
}

Status CheckFinite(const std::string& where, const CalibratedOutcome& outcome) {
  if (std::isfinite(outcome.error_plain) && std::isfinite(outcome.error)) return Ok();
  return Error{Code::kCorrupt,
               Cat(where, ": layer ", outcome.layer,
                   ": error of the products: expected a finite number, found ",
                   std::isfinite(outcome.error) ? outcome.error_plain : outcome.error)};
}

Status CheckCanCalibrate(const CalibrateRun& run) {
  const runtime::TensorTypes types = calibrate_run::TypesOf(run.typed);
  if (types.empty())
    return Error{Code::kInvalidArgument,
                 "--calibrate has no effect: no tensor but the embedding gets a type with blocks",
                 "--recipe chooses types"};
  for (const GgufTensor& tensor : run.typed.model.tensors) {
    if (!types.contains(tensor.name)) continue;
    const TensorEntry* const entry = run.model.checkpoint().Find(
        tensor.source_tensor.empty() ? tensor.name : tensor.source_tensor);
    const quant::Format* const stored = entry == nullptr ? tensor.stored : entry->format;
    if (stored != nullptr && stored->block_values == 1 && stored->block_bytes >= 2) continue;
    return Error{Code::kUnsupported,
                 Cat(run.named.shown(), ": tensor ", Quoted(tensor.name),
                     ": --calibrate: expected values of 16 bits and more, found ",
                     stored == nullptr ? Shown(entry->dtype) : std::string(stored->name)),
                 "calibrate the model that this one was quantized from"};
  }
  return Ok();
}

Result<double> RunCalibration(const CalibrateRun& run) {
  using namespace calibrate_run;
  const auto start = std::chrono::steady_clock::now();
  SHARD_CHECK(CheckCanCalibrate(run));
  SHARD_CHECK(CheckTextFiles(run.arguments.texts));
  const runtime::TensorTypes types = TypesOf(run.typed);
  SHARD_TRY(const CalibrateModel source, LoadFor(run));
  SHARD_TRY(const std::vector<TokenSession> texts, ReadTexts(run, source.loaded));
  const runtime::CalibrateOptions options = OptionsFor(run);
  Progress progress("calibrating", ProgressUnit::kTokens);
  runtime::CalibrateInput input{*source.loaded.model, *source.watch, types, texts,
                                runtime::BosToken(source.loaded.weights->metadata)};
  SHARD_TRY(std::unique_ptr<runtime::Calibrator> calibrator,
            runtime::Calibrator::Open(input, options, progress.Shows()));
  CalibratedRecord record = RecordBefore(run);
  record.layer_count = calibrator->layers();
  record.calibration = CalibrationOf(texts, calibrator->text().taken);
  progress.Clear();
  WarnOfText(texts, calibrator->text().tokens,
             runtime::TokensForCalibration(*source.loaded.model, types));
  WarnOfExecutor(*source.loaded.executor);
  const std::string part = TakenLines(calibrator->text().buckets);
  if (!part.empty()) PrintMessage(part);
  // What is refused leaves no store behind.
  SHARD_TRY(LayersOfRun layers, LayersOfRun::Open(run, source.loaded, types, record));
  std::unique_ptr<SharedExperts> shared;
  if (run.task) {
    SHARD_TRY(shared,
              SharedExperts::Open(run.store, *run.task, record, types, SayWaiting(progress)));
    input.exchange = shared.get();
  }
  SHARD_CHECK(Encoding(run, *calibrator, layers, progress).Run());
  progress.Clear();
  NoteTheRest(types, layers.record());
  calibrator.reset();
  if (run.groups) {
    const GroupsToEncode work{
        run.named.shown(), *run.groups,
        source.loaded,     input,
        options,           [&](uint32_t layer) { return layers.Read(layer); }};
    SHARD_CHECK(shared ? ShareGroups(work, *shared, layers, SayWaiting(progress))
                       : EncodeGroups(work, layers.writer()));
    progress.Clear();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<CalibrateNeeds> EstimateNeeds(const CalibrateRun& run) {
  using namespace calibrate_run;
  SHARD_CHECK(CheckCanCalibrate(run));
  SHARD_CHECK(CheckTextFiles(run.arguments.texts));
  SHARD_TRY(const CalibrateModel source, LoadFor(run));
  SHARD_TRY(const std::vector<TokenSession> texts, ReadTexts(run, source.loaded));
  const runtime::CalibrateOptions options = OptionsFor(run);
  SHARD_TRY(const runtime::Calibration taken,
            runtime::CalibrationTextOf(texts, options,
                                       runtime::BosToken(source.loaded.weights->metadata)));
  const std::vector<runtime::GroupExperts> groups =
      run.groups ? ExpertsOf(*run.groups) : std::vector<runtime::GroupExperts>();
  const uint32_t machines = run.task ? run.task->count : 1;
  CalibrateNeeds needs{{}, taken.buckets, taken.tokens, options.memory, machines, groups.size()};
  SHARD_TRY(needs.estimate,
            runtime::EstimateCalibration(*source.loaded.model, TypesOf(run.typed),
                                         {taken.tokens, options.jobs, machines, groups}));
  WarnOfText(texts, taken.tokens, needs.estimate.tokens_needed);
  WarnOfExecutor(*source.loaded.executor);
  return needs;
}

CalibratedRecord RecordBefore(const CalibrateRun& run) {
  CalibratedRecord record;
  record.model = run.model.Version("");
  record.types = TypesDigest(calibrate_run::TypesOf(run.typed));
  RecordParameters(run.arguments.options, record);
  if (run.groups)
    record.groups.emplace(CalibratedGroups{RefitVersion(run.groups->store.record()), {}});
  return record;
}

Result<std::shared_ptr<const CalibratedTensors>> OpenCalibrated(const CalibrateRun& run,
                                                                size_t files_before) {
  SHARD_TRY(const CalibratedStore store, CalibratedStore::Open(run.store));
  SHARD_TRY(CalibratedTensors tensors,
            CalibratedTensors::Of(
                store, {run.model.Version(""), run.groups ? &run.groups->store.record() : nullptr},
                static_cast<uint32_t>(files_before)));
  SHARD_CHECK(tensors.CheckAllIn(run.typed.model));
  return std::make_shared<const CalibratedTensors>(std::move(tensors));
}

Result<CalibratedFiles> WholeCalibrated(const CalibrateRun& run, WholeGgufOptions options,
                                        GgufModel& model) {
  CalibratedFiles out;
  SHARD_TRY(out.tensors, OpenCalibrated(run, run.model.checkpoint().files().size()));
  SetCalibrationKeys(out.tensors->record(), model.metadata);
  options.calibrated = out.tensors.get();
  SHARD_TRY(out.files, WholeGguf(model, options));
  out.sources = run.model.checkpoint().files();
  const std::vector<SourceFile>& more = out.tensors->files();
  out.sources.insert(out.sources.end(), more.begin(), more.end());
  return out;
}

}  // namespace moepack::cli
