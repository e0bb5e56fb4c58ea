#include "tools/commands/calibrate_redo.h"

#include <algorithm>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/text.h"
#include "libshard/calibrate/calibrated_store.h"
#include "manifest/document/manifest.h"
#include "manifest/verify/refit_store_of.h"
#include "runtime-shim/model/bos_token.h"
#include "tools/commands/calibrate_run.h"
#include "tools/options/refit_arguments.h"
#include "tools/options/source.h"

namespace moepack::cli {

struct CalibratedRedoInputs {
  uint32_t layer = 0;
  std::optional<CalibratedStore> store;
  std::optional<Plan> plan;         // of groups that were encoded for their nodes
  std::optional<RefitStore> refit;  // if its store is named
  CalibrateModel source;
  runtime::TensorTypes types;
  std::vector<TokenSession> texts;
  runtime::CalibrateOptions options;
};

namespace calibrate_redo {
namespace {

constexpr const char* kRule = "calibrated-redo";

std::string NameOf(const CalibratedRecord& record, uint32_t layer) {
  return layer == record.layer_count ? "output" : Cat("layer ", layer);
}

Status LoadSource(const manifest::VerifyOptions& options, CalibratedRedoInputs& inputs) {
  SHARD_TRY(const moepack::Source source, options.against_source
                                              ? Result<moepack::Source>(*options.against_source)
                                              : OpenSource(options.against));
  const ModelOptions model_options{.family_file = options.family_file,
                                   .config_file = options.config_file};
  SHARD_TRY(const MoeModel model, MoeModel::Open(source, model_options));
  const std::string& expected = inputs.store->record().model;
  if (model.Version("") != expected)
    return Error{Code::kMismatch,
                 Cat(WithoutSecrets(options.against), ": model version: expected ", expected,
                     " as in the calibration, found ", model.Version(""))};
  const runtime::NodeOptions loading =
      OptionsToCalibrate(model_options, options.jobs, inputs.options.executor, /*device=*/0);
  SHARD_TRY(auto executor,
            OpenRecordedExecutor(loading, inputs.store->directory().string(), "the calibration"));
  SHARD_TRY(inputs.source, LoadForCalibration(source, loading, std::move(executor)));
  inputs.options.jobs = static_cast<uint32_t>(options.jobs);
  return Ok();
}

Status ReadTextsOf(const RedoArguments& arguments, CalibratedRedoInputs& inputs) {
  const LoadedModel& loaded = inputs.source.loaded;
  SHARD_TRY(inputs.texts,
            ReadSessions(arguments.texts, loaded.model->vocabulary(), TokenizeAs(loaded.weights)));
  const std::vector<uint64_t> taken = runtime::TokensTaken(inputs.texts, inputs.options.tokens);
  const std::vector<CalibrationText>& recorded = inputs.store->record().calibration;
  // What was taken is compared when the text has been cut into windows.
  const std::vector<CalibrationText> found = CalibrationOf(inputs.texts, taken);
  const bool same = std::equal(recorded.begin(), recorded.end(), found.begin(), found.end(),
                               [](const CalibrationText& a, const CalibrationText& b) {
                                 return a.sha256 == b.sha256 && a.bucket == b.bucket;
                               });
  if (same) return Ok();
  return Error{Code::kMismatch,
               "--text: expected the texts of the calibration in their order, found others",
               "distribution.json has their digests under calibrated.calibration"};
}

// The first figure that differs; "" if all are the same.
std::string FigureThatDiffers(const CalibratedFigures& expected, const CalibratedFigures& found) {
  const auto differ = [&](const char* name, auto figure) {
    return expected.*figure == found.*figure
               ? ""
               : Cat(name, ": expected ", expected.*figure, ", found ", found.*figure);
  };
  for (const std::string& text :
       {differ("matrices", &CalibratedFigures::matrices),
        differ("accepted", &CalibratedFigures::accepted),
        differ("few_tokens", &CalibratedFigures::few_tokens),
        differ("worse", &CalibratedFigures::worse), differ("unseen", &CalibratedFigures::unseen),
        differ("error_plain", &CalibratedFigures::error_plain),
        differ("error", &CalibratedFigures::error)}) {
    if (!text.empty()) return text;
  }
  return "";
}

// The same of a layer, with its experts.
std::string OutcomeThatDiffers(const CalibratedOutcome& expected, const CalibratedOutcome& found) {
  std::string figure = FigureThatDiffers(expected, found);
  if (!figure.empty()) return figure;
  if (expected.experts.size() != found.experts.size())
    return Cat("experts: expected ", expected.experts.size(), ", found ", found.experts.size());
  for (size_t i = 0; i < expected.experts.size(); ++i) {
    const CalibratedExpert &a = expected.experts[i], &b = found.experts[i];
    if (a.id != b.id) return Cat("experts: expected expert ", a.id, ", found expert ", b.id);
    figure = FigureThatDiffers(a.figures, b.figures);
    if (!figure.empty()) return Cat("expert ", a.id, ": ", figure);
  }
  return "";
}

class Comparison {
 public:
  Comparison(std::string name, manifest::VerifyReport& report)
      : name_(std::move(name)), report_(report) {}

  void Compare(const CalibratedOutcome& recorded, const EncodedTensors& stored,
               const runtime::EncodedLayer& again) {
    const std::string figure = OutcomeThatDiffers(recorded, again.outcome);
    if (!figure.empty()) Differ("", figure);
    CompareTensors(stored, again.tensors);
    Note();
  }

 private:
  void CompareTensors(const EncodedTensors& stored, const EncodedTensors& again) {
    for (const auto& [name, bytes] : stored) {
      const auto found = again.find(name);
      if (found == again.end()) {
        Differ(name, "expected to be encoded again, found nothing");
        continue;
      }
      bytes_ += bytes.size();
      if (bytes != found->second) Differ(name, "expected the bytes of the store, found others");
    }
    if (again.size() > stored.size()) Differ("", "expected the tensors of the store, found more");
  }
  void Differ(const std::string& tensor, const std::string& message) {
    same_ = false;
    report_.findings.push_back(
        {manifest::Severity::kError, kRule, "", tensor, Cat(name_, ": ", message)});
  }
  void Note() const {
    if (!same_) return;
    report_.findings.push_back({manifest::Severity::kNote, kRule, "", "",
                                Cat(name_, ": ", FormatCount(bytes_), " bytes: the same")});
  }

  std::string name_;
  manifest::VerifyReport& report_;
  uint64_t bytes_ = 0;
  bool same_ = true;
};

Status EncodeWhole(const CalibratedRedoInputs& inputs, const runtime::CalibrateInput& input,
                   manifest::VerifyReport& report) {
  SHARD_TRY(const std::unique_ptr<runtime::Calibrator> calibrator,
            runtime::Calibrator::Open(input, inputs.options, {}));
  const CalibratedRecord& record = inputs.store->record();
  if (!SameTexts(record.calibration, CalibrationOf(inputs.texts, calibrator->text().taken)))
    return Error{Code::kMismatch, "texts: expected those of the calibration, found others"};
  for (uint32_t layer = 0; layer < inputs.layer; ++layer) {
    runtime::EncodedLayer before;
    SHARD_TRY(before.tensors, inputs.store->Read(layer));
    SHARD_CHECK(calibrator->Replay(layer, before));
  }
  SHARD_TRY(const runtime::EncodedLayer again, calibrator->Encode(inputs.layer));
  SHARD_TRY(const EncodedTensors stored, inputs.store->Read(inputs.layer));
  Comparison(NameOf(record, inputs.layer), report)
      .Compare(record.layers[inputs.layer], stored, again);
  return Ok();
}

Status EncodeGroup(const CalibratedRedoInputs& inputs, const runtime::CalibrateInput& input,
                   uint32_t group, manifest::VerifyReport& report) {
  const CalibratedStore& store = *inputs.store;
  const runtime::CalibrateGroup node{*inputs.plan, *inputs.refit, group,
                                     [&](uint32_t layer) { return store.Read(layer); }};
  SHARD_TRY(const std::unique_ptr<runtime::Calibrator> calibrator,
            runtime::Calibrator::OpenGroup(input, node, inputs.options, {}));
  for (uint32_t layer = 0; layer < inputs.layer; ++layer) {
    runtime::EncodedLayer before;
    SHARD_TRY(before.tensors, store.ReadInGroup(group, layer));
    SHARD_CHECK(calibrator->Replay(layer, before));
  }
  SHARD_TRY(const runtime::EncodedLayer again, calibrator->Encode(inputs.layer));
  SHARD_TRY(const EncodedTensors stored, store.ReadInGroup(group, inputs.layer));
  Comparison(Cat("group ", group, ", ", NameOf(store.record(), inputs.layer)), report)
      .Compare(*store.record().FindInGroup(group, inputs.layer), stored, again);
  return Ok();
}

Status EncodeAgain(const CalibratedRedoInputs& inputs, manifest::VerifyReport& report) {
  const runtime::CalibrateInput input{*inputs.source.loaded.model, *inputs.source.watch,
                                      inputs.types, inputs.texts,
                                      runtime::BosToken(inputs.source.loaded.weights->metadata)};
  SHARD_CHECK(EncodeWhole(inputs, input, report));
  const CalibratedRecord& record = inputs.store->record();
  const size_t groups = inputs.plan ? inputs.plan->groups.size() : 0;
  for (uint32_t group = 0; group < groups; ++group) {
    const CalibratedOutcome* const layer = record.FindInGroup(group, inputs.layer);
    if (layer == nullptr || layer->tensors.empty()) continue;
    if (inputs.refit) {
      SHARD_CHECK(EncodeGroup(inputs, input, group, report));
      continue;
    }
    report.findings.push_back(
        {manifest::Severity::kNote, kRule, "", "",
         Cat("group ", group, ", ", NameOf(record, inputs.layer), ": ",
             Plural(layer->experts.size(), "refitted expert"),
             " not encoded again: --refit-store names the store that has them")});
  }
  return Ok();
}

}  // namespace
}  // namespace calibrate_redo

bool RedoesCalibration(const std::string& directory, const RedoArguments& arguments) {
  if (!arguments.layer) return false;
  const auto manifest = manifest::ReadManifest(directory);
  if (!manifest || !manifest->calibrated) return false;
  const bool named = !arguments.calibrated_store.empty();
  if (!arguments.store.empty()) return named && manifest->calibrated->groups;
  return !manifest->refit || named;
}

std::string CalibratedStoreFor(const std::string& directory, const RedoArguments& arguments) {
  if (!arguments.calibrated_store.empty() || !RedoesCalibration(directory, arguments))
    return arguments.calibrated_store;
  return CalibratedStoreBeside(directory);
}

Result<std::shared_ptr<const CalibratedRedoInputs>> PrepareCalibratedRedo(
    const std::string& directory, const manifest::VerifyOptions& options,
    const RedoArguments& arguments) {
  using namespace calibrate_redo;
  SHARD_CHECK(CheckTextFiles(arguments.texts));
  auto inputs = std::make_shared<CalibratedRedoInputs>();
  inputs->layer = *arguments.layer;
  SHARD_TRY(const manifest::Manifest manifest, manifest::ReadManifest(directory));
  SHARD_TRY(inputs->store, manifest::OpenCalibratedStoreOf(
                               manifest, LocalTree(directory).NameOf(manifest::kManifestFile),
                               CalibratedStoreFor(directory, arguments)));
  // The store may have groups that the distribution does not.
  if (manifest.calibrated->groups) inputs->plan = manifest.plan;
  if (!arguments.store.empty()) {
    SHARD_TRY(inputs->refit,
              manifest::OpenStoreOf(manifest, LocalTree(directory).NameOf(manifest::kManifestFile),
                                    arguments.store));
  }
  const CalibratedRecord& record = inputs->store->record();
  if (inputs->layer >= record.layers.size())
    return Error{Code::kInvalidArgument,
                 Cat("--redo: expected a layer of at most ", record.layer_count,
                     ", the output, found ", inputs->layer)};
  SHARD_TRY(inputs->options,
            CalibrateOptionsOf(Shown(inputs->store->directory().string()), record));
  for (const CalibratedOutcome& layer : record.layers) {
    for (const CalibratedTensor& tensor : layer.tensors)
      inputs->types.emplace(tensor.name, tensor.type);
  }
  SHARD_CHECK(LoadSource(options, *inputs));
  SHARD_CHECK(CheckEncodedFit(Shown(inputs->store->directory().string()), inputs->source.loaded,
                              inputs->types, record));
  SHARD_CHECK(ReadTextsOf(arguments, *inputs));
  return std::shared_ptr<const CalibratedRedoInputs>(inputs);
}

void RedoCalibration(const CalibratedRedoInputs& inputs, manifest::VerifyReport& report) {
  using namespace calibrate_redo;
  report.rules.push_back(kRule);
  const Status done = EncodeAgain(inputs, report);
  if (done) return;
  report.findings.push_back(
      {manifest::Severity::kError, kRule, "", "",
       Cat(NameOf(inputs.store->record(), inputs.layer),
           ": expected one that can be encoded again, found an error: ", done.error().message)});
}

}  // namespace moepack::cli
