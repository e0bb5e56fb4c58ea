#include "tools/commands/calibrate_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/calibrate/calibrated_store.h"
#include "libshard/recipe/recipe_types.h"
#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/estimate.h"
#include "runtime-shim/executor/observed_executor.h"
#include "runtime-shim/model/bos_token.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
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
  SHARD_CHECK(CheckHeldOut(
      {arguments.held_out, arguments.force_overlap, "hold other texts out, or add --force-overlap"},
      loaded, texts));
  return texts;
}

CalibratedRecord RecordFor(const CalibrateRun& run, const runtime::TensorTypes& types) {
  CalibratedRecord record;
  record.model = run.model.Version("");
  record.types = TypesDigest(types);
  RecordParameters(run.arguments.options, record);
  return record;
}

Status CheckFinite(const CalibrateRun& run, const CalibratedOutcome& outcome) {
  if (std::isfinite(outcome.error_plain) && std::isfinite(outcome.error)) return Ok();
  return Error{Code::kCorrupt,
               Cat(run.named.shown(), ": layer ", outcome.layer,
                   ": error of the products: expected a finite number, found ",
                   std::isfinite(outcome.error) ? outcome.error_plain : outcome.error)};
}

class Encoding {
 public:
  Encoding(const CalibrateRun& run, const runtime::TensorTypes& types,
           runtime::Calibrator& calibrator, CalibratedStoreWriter& store, Progress& progress)
      : run_(run), types_(types), calibrator_(calibrator), store_(store), progress_(progress) {}

  Status Run() {
    for (uint32_t layer = 0; layer <= calibrator_.layers(); ++layer) {
      SHARD_CHECK(store_.Has(layer) ? Replay(layer) : Encode(layer));
      const CalibratedRecord& record = store_.record();
      progress_.Clear();
      PrintMessage(CalibratedLine(record, record.layers[layer], layer < before_));
    }
    return Ok();
  }

 private:
  Status Replay(uint32_t layer) {
    // What nothing follows needs no stream.
    if (store_.record().finished()) return Ok();
    runtime::EncodedLayer encoded;
    SHARD_TRY(encoded.tensors, store_.Read(layer));
    return calibrator_.Replay(layer, encoded);
  }

  Status Encode(uint32_t layer) {
    SHARD_TRY(const runtime::EncodedLayer encoded, calibrator_.Encode(layer));
    SHARD_CHECK(CheckFinite(run_, encoded.outcome));
    return store_.Add(encoded.outcome, encoded.tensors, types_);
  }

  const CalibrateRun& run_;
  const runtime::TensorTypes& types_;
  runtime::Calibrator& calibrator_;
  CalibratedStoreWriter& store_;
  Progress& progress_;
  const size_t before_ = store_.record().layers.size();  // layers that an earlier run encoded
};

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

// 0 if its rows cannot have the type.
uint64_t BytesIn(const runtime::HostTensor& tensor, const quant::Format& type) {
  if (tensor.shape.empty()) return 0;
  uint64_t rows = 1;
  for (size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) rows *= tensor.shape[axis];
  return rows * type.BytesFor(tensor.shape.back()).value_or(0);
}

// Tensors that no layer of the run has: blocks that do not run.
void NoteTheRest(const runtime::TensorTypes& types, const CalibratedRecord& record) {
  std::vector<std::string> names;
  for (const auto& [name, type] : types) {
    if (record.Find(name).tensor == nullptr) names.push_back(name);
  }
  if (names.empty()) return;
  PrintNotes(
      {Cat(Plural(names.size(), "tensor"), " encoded without feedback, because no text runs ",
           "through them: ", names.front(), names.size() > 1 ? ", ..." : "")});
}

void WarnOfText(const std::vector<TokenSession>& texts, const runtime::Calibration& taken) {
  const bool alike = std::all_of(texts.begin(), texts.end(), [&](const TokenSession& session) {
    return session.bucket == texts.front().bucket;
  });
  if (alike && !texts.front().bucket.empty())
    PrintWarnings({Cat("one bucket: all calibration text is ", Quoted(texts.front().bucket),
                       "; other text may gain less")});
  const std::string part = TakenLines(taken.buckets);
  if (!part.empty()) PrintMessage(part);
}

}  // namespace
}  // namespace calibrate_run

std::string CalibratedStoreBeside(const std::string& output) {
  return output.substr(0, output.find_last_not_of('/') + 1) + calibrate_run::kSuffix;
}

Result<CalibrateModel> LoadForCalibration(const moepack::Source& source,
                                          const ModelOptions& options, size_t jobs) {
  RuntimeArguments runtime;
  runtime.load.model = options;
  runtime.load.jobs = static_cast<uint32_t>(jobs);
  runtime.device.threads = runtime.load.jobs;
  // A calibration goes through the model once, so it never needs the experts of two layers.
  runtime.load.experts_later = true;
  CalibrateModel out;
  out.watch = std::make_unique<runtime::ProductWatch>();
  SHARD_TRY(std::shared_ptr<runtime::Executor> executor, OpenExecutor(runtime));
  out.loaded.executor =
      std::make_shared<runtime::ObservedExecutor>(std::move(executor), *out.watch);
  runtime::LoadOptions loading = runtime.loading();
  Progress progress("loading");
  loading.progress = progress.Shows();
  SHARD_TRY(out.loaded.weights, runtime::LoadWeights(source, loading));
  progress.Clear();
  PrintNotes(out.loaded.weights->notes);
  SHARD_TRY(out.loaded.model, runtime::Model::Load(out.loaded.weights, *out.loaded.executor));
  out.watch->SetWeights(*out.loaded.weights);
  return out;
}

Status CheckEncodedFit(const std::string& where, const LoadedModel& loaded,
                       const runtime::TensorTypes& types, const CalibratedRecord& record) {
  const auto wrong = [&](const std::string& thing, const auto& expected, const auto& found) {
    return Error{Code::kMismatch,
                 Cat(where, ": ", thing, ": expected ", expected, ", found ", found),
                 "the store is damaged, or of another model"};
  };
  const uint32_t layers = loaded.model->spec().layers;
  if (record.layer_count != layers) return wrong("layers", layers, record.layer_count);
  for (const CalibratedOutcome& layer : record.layers) {
    for (const CalibratedTensor& tensor : layer.tensors) {
      const std::string thing = Cat("tensor ", Quoted(tensor.name));
      const auto type = types.find(tensor.name);
      const runtime::HostTensor* const own =
          calibrate_run::FindTensor(*loaded.weights, tensor.name);
      if (own == nullptr || type == types.end())
        return wrong(thing, "one that is calibrated", "another");
      if (type->second != tensor.type) return wrong(thing, type->second->name, tensor.type->name);
      const uint64_t bytes = calibrate_run::BytesIn(*own, *tensor.type);
      if (bytes != tensor.bytes) return wrong(thing, Cat(bytes, " bytes"), tensor.bytes);
    }
  }
  return Ok();
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

Result<CalibratedRecord> RunCalibration(const CalibrateRun& run) {
  using namespace calibrate_run;
  SHARD_CHECK(CheckCanCalibrate(run));
  SHARD_CHECK(CheckTextFiles(run.arguments.texts));
  const runtime::TensorTypes types = TypesOf(run.typed);
  SHARD_TRY(const CalibrateModel source, LoadForCalibration(run.source, run.named.model, run.jobs));
  SHARD_TRY(const std::vector<TokenSession> texts, ReadTexts(run, source.loaded));
  const runtime::CalibrateOptions options = OptionsFor(run);
  Progress progress("calibrating", ProgressUnit::kTokens);
  const runtime::CalibrateInput input{*source.loaded.model, *source.watch, types, texts,
                                      runtime::BosToken(source.loaded.weights->metadata)};
  SHARD_TRY(const std::unique_ptr<runtime::Calibrator> calibrator,
            runtime::Calibrator::Open(input, options, progress.Shows()));
  CalibratedRecord record = RecordFor(run, types);
  record.layer_count = calibrator->layers();
  record.calibration = CalibrationOf(texts, calibrator->text().taken);
  progress.Clear();
  WarnOfText(texts, calibrator->text());
  // What is refused leaves no store behind.
  SHARD_TRY(CalibratedStoreWriter store, CalibratedStoreWriter::Open(run.store, std::move(record)));
  SHARD_CHECK(CheckEncodedFit(Shown(run.store), source.loaded, types, store.record()));
  SHARD_CHECK(Encoding(run, types, *calibrator, store, progress).Run());
  progress.Clear();
  NoteTheRest(types, store.record());
  return store.record();
}

Result<CalibrateNeeds> EstimateNeeds(const CalibrateRun& run) {
  using namespace calibrate_run;
  SHARD_CHECK(CheckCanCalibrate(run));
  SHARD_CHECK(CheckTextFiles(run.arguments.texts));
  SHARD_TRY(const CalibrateModel source, LoadForCalibration(run.source, run.named.model, run.jobs));
  SHARD_TRY(const std::vector<TokenSession> texts, ReadTexts(run, source.loaded));
  const runtime::CalibrateOptions options = OptionsFor(run);
  SHARD_TRY(const runtime::Calibration taken,
            runtime::CalibrationTextOf(texts, options,
                                       runtime::BosToken(source.loaded.weights->metadata)));
  return CalibrateNeeds{
      runtime::EstimateCalibration(*source.loaded.model, TypesOf(run.typed), taken.tokens),
      taken.buckets, taken.tokens, options.memory, runtime::MeasureProductRate(options.jobs)};
}

Result<std::shared_ptr<const CalibratedTensors>> OpenCalibrated(const CalibrateRun& run,
                                                                size_t files_before) {
  SHARD_TRY(const CalibratedStore store, CalibratedStore::Open(run.store));
  SHARD_TRY(CalibratedTensors tensors, CalibratedTensors::Of(store, run.model.Version(""),
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
