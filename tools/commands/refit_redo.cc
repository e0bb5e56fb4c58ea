#include "tools/commands/refit_redo.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <memory>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/text.h"
#include "libshard/refit/refit_store.h"
#include "manifest/document/manifest.h"
#include "manifest/verify/refit_store_of.h"
#include "runtime-shim/model/bos_token.h"
#include "runtime-shim/refit/refit.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/commands/refit_run.h"
#include "tools/options/options.h"
#include "tools/options/source.h"

namespace moepack::cli {

struct RedoInputs {
  uint32_t layer = 0;
  Status readable = Ok();  // the error of a corrupt manifest, without which nothing else is set
  manifest::Manifest manifest;
  std::optional<RefitStore> store;
  LoadedModel whole;
  std::vector<TokenSession> texts;
  runtime::SessionWeights weights;
  runtime::RefitOptions options;
};

namespace {

constexpr const char* kRedoRule = "refit-redo";
constexpr uint32_t kMostLayers = 4096;

Status ReadRecords(const std::string& directory, const RedoArguments& arguments,
                   RedoInputs& inputs) {
  SHARD_TRY(inputs.store, manifest::OpenStoreOf(
                              inputs.manifest, LocalTree(directory).NameOf(manifest::kManifestFile),
                              RefitStoreFor(directory, arguments)));
  const std::string where = inputs.store->directory().string();
  if (!inputs.store->record().HasLayer(*arguments.layer))
    return Error{Code::kInvalidArgument,
                 Cat("--redo: layer ", *arguments.layer, " was not refitted")};
  SHARD_TRY(inputs.options, runtime::OptionsOf(where, inputs.store->record()));
  return Ok();
}

Status CheckTexts(const RefitRecord& record, const std::vector<CalibrationText>& found) {
  if (SameTexts(record.calibration, found)) return Ok();
  std::vector<std::string> names;
  for (const CalibrationText& text : record.calibration) names.push_back(text.name);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return Error{
      Code::kMismatch,
      Cat("--text: expected the texts of the refit, found others than ",
          names.empty() ? "none" : Join(names, ", "), " in this order and with these tokens"),
      "distribution.json has their digests under refit.calibration"};
}

Status LoadWhole(const manifest::VerifyOptions& options, const RedoArguments& arguments,
                 RedoInputs& inputs) {
  RuntimeArguments runtime;
  runtime.source = options.against;
  runtime.load.model.family_file = options.family_file;
  runtime.load.model.config_file = options.config_file;
  runtime.load.experts_later = true;
  runtime.load.jobs = static_cast<uint32_t>(options.jobs);
  runtime.executor = inputs.options.executor;
  inputs.options.jobs = runtime.load.jobs;
  SHARD_TRY(const moepack::Source source, OpenSource(runtime.source));
  SHARD_TRY(const MoeModel model, MoeModel::Open(source, runtime.load.model));
  const std::string& expected = inputs.store->record().model;
  if (model.Version("") != expected)
    return Error{Code::kMismatch, Cat(WithoutSecrets(runtime.source), ": model version: expected ",
                                      expected, " as in the refit, found ", model.Version(""))};
  SHARD_TRY(auto executor,
            OpenRecordedExecutor(runtime, inputs.store->directory().string(), "the refit"));
  SHARD_TRY(inputs.whole, LoadModel(runtime.source, runtime, std::move(executor)));
  SHARD_TRY(inputs.texts, ReadSessions(arguments.texts, inputs.whole.model->vocabulary(),
                                       TokenizeAs(inputs.whole.weights)));
  return Ok();
}

Status WeighTexts(const std::string& directory, RedoInputs& inputs) {
  inputs.weights = WeighSessions(inputs.options, inputs.manifest.plan, inputs.texts);
  const auto taken = runtime::MakeCalibration(inputs.texts, inputs.weights, inputs.options,
                                              runtime::BosToken(inputs.whole.weights->metadata));
  // Texts from which nothing can be taken are others than those of the refit.
  const std::vector<uint64_t> tokens = taken ? taken->taken : std::vector<uint64_t>();
  SHARD_CHECK(CheckTexts(inputs.store->record(), tokens.empty()
                                                     ? std::vector<CalibrationText>()
                                                     : CalibrationOf(inputs.texts, tokens)));
  if (!taken) return taken.error();
  const auto& parameters = inputs.store->record().parameters;
  const auto weights = parameters.find(kSessionWeights);
  if (weights != parameters.end() && weights->second == SessionWeightsText(inputs.weights))
    return Ok();
  return Error{Code::kMismatch, Cat(Shown(directory),
                                    ": placement table: expected the one that weighed the "
                                    "texts of the refit, found another")};
}

// "" if the figures are the same.
std::string FigureThatDiffers(const RefitOutcome& expected, const RefitOutcome& found) {
  const auto differ = [](const char* name, const auto& a, const auto& b) {
    return Cat(name, ": expected ", a, ", found ", b);
  };
  if (expected.accepted != found.accepted)
    return differ("accepted", expected.accepted ? "yes" : "no", found.accepted ? "yes" : "no");
  if (expected.error_before != found.error_before)
    return differ("error before", expected.error_before, found.error_before);
  if (expected.error_after != found.error_after)
    return differ("error after", expected.error_after, found.error_after);
  if (expected.neurons_moved != found.neurons_moved)
    return differ("neurons moved", expected.neurons_moved, found.neurons_moved);
  if (expected.slot_tokens != found.slot_tokens)
    return "tokens of the experts: expected those of the record, found others";
  return "";
}

// Compares what was computed with what the store has, group by group.
class RedoComparison {
 public:
  RedoComparison(const RefitStore& store, manifest::VerifyReport& report)
      : store_(store), report_(report) {}

  Status Compare(const runtime::RefittedLayer& again) {
    for (const RefitOutcome& outcome : again.outcomes) {
      const RefitOutcome* const expected = store_.record().Find(outcome.layer, outcome.group);
      const std::string figure = expected == nullptr ? "expected in the record, found none"
                                                     : FigureThatDiffers(*expected, outcome);
      if (!figure.empty()) Differ(outcome, figure);
      if (!outcome.accepted || expected == nullptr || !expected->accepted) continue;
      SHARD_TRY(const std::optional<RefittedExperts> stored,
                store_.Read(outcome.layer, outcome.group));
      const auto own =
          std::find_if(again.accepted.begin(), again.accepted.end(),
                       [&](const RefittedExperts& one) { return one.group == outcome.group; });
      CompareExperts(outcome, *stored, *own);
    }
    if (same_)
      report_.findings.push_back(
          {manifest::Severity::kNote, kRedoRule, "", "",
           Cat("layer ", again.outcomes.front().layer, ": ", Plural(again.outcomes.size(), "group"),
               ", ", FormatCount(values_), " values: the same bits")});
    return Ok();
  }

 private:
  void CompareExperts(const RefitOutcome& outcome, const RefittedExperts& stored,
                      const RefittedExperts& again) {
    if (stored.expert_ids != again.expert_ids)
      return Differ(outcome, Cat("experts: expected ", Quoted(FormatIds(stored.expert_ids)),
                                 ", found ", Quoted(FormatIds(again.expert_ids))));
    for (const RefittedArray& array : RefittedArrays()) {
      const std::vector<float>&a = stored.*array.values, &b = again.*array.values;
      if (a.size() != b.size()) {
        Differ(outcome, Cat(array.name, ": expected ", a.size(), " values, found ", b.size()));
        continue;
      }
      uint64_t others = 0;
      for (size_t i = 0; i < a.size(); ++i) others += std::memcmp(&a[i], &b[i], sizeof a[i]) != 0;
      values_ += a.size();
      if (others > 0)
        Differ(outcome, Cat(array.name, ": expected the bits of the store, found others in ",
                            FormatCount(others), " of ", FormatCount(a.size()), " values"));
    }
  }

  void Differ(const RefitOutcome& outcome, const std::string& message) {
    same_ = false;
    report_.findings.push_back(
        {manifest::Severity::kError, kRedoRule, "", "",
         Cat("layer ", outcome.layer, ", group ", outcome.group, ": ", message)});
  }

  const RefitStore& store_;
  manifest::VerifyReport& report_;
  uint64_t values_ = 0;
  bool same_ = true;
};

Status ComputeAgain(const RedoInputs& inputs, manifest::VerifyReport& report) {
  SHARD_CHECK(inputs.readable);
  runtime::RefitInput input = {*inputs.whole.model,
                               inputs.manifest.plan,
                               inputs.texts,
                               runtime::BosToken(inputs.whole.weights->metadata),
                               nullptr,
                               inputs.weights};
  if (const auto& part = inputs.store->part()) input.groups = part->groups;
  SHARD_TRY(const runtime::RefittedLayer again,
            runtime::RedoLayer(input, inputs.options, *inputs.store, inputs.layer));
  return RedoComparison(*inputs.store, report).Compare(again);
}

}  // namespace

std::string RefitStoreFor(const std::string& directory, const RedoArguments& arguments) {
  if (!arguments.store.empty() || !arguments.layer) return arguments.store;
  return RefitStoreBeside(directory);
}

void AddRedo(CLI::App& app, RedoArguments& arguments) {
  StartSection(app, "Checks");
  CLI::Option* redo =
      app.add_option("--redo", arguments.layer,
                     "Also compute this layer of the refit again, from the source and the texts of "
                     "the refit (--text), and compare its bits with those of the refit store. Of a "
                     "distribution that is calibrated and not refitted, or with --calibrated-store "
                     "alone: encode this layer again, and compare its bytes with those of the "
                     "store of the calibration. With both stores, that is done if the refitted "
                     "experts were calibrated, and for them, too.")
          ->type_name("LAYER")
          ->transform(AsCount(0, kMostLayers - 1))
          ->needs(app.get_option("--against"));
  app.add_option("--refit-store", arguments.store,
                 "Also make the refitted tensors again from this refit store, and compare their "
                 "bytes. Default with --redo: the distribution's directory name plus .refit.")
      ->type_name("DIR")
      ->needs(app.get_option("--against"));
  app.add_option("--calibrated-store", arguments.calibrated_store,
                 "Also compare the tensors that were encoded with error feedback with this store. "
                 "Default with --redo: the distribution's directory name plus .calibrated.")
      ->type_name("DIR")
      ->needs(app.get_option("--against"));
  AddTexts(app, arguments.texts);
  for (const char* name : {"--text", "--tokens", "--bucket"}) app.get_option(name)->needs(redo);
}

Result<std::shared_ptr<const RedoInputs>> PrepareRedo(const std::string& directory,
                                                      const manifest::VerifyOptions& options,
                                                      const RedoArguments& arguments) {
  SHARD_CHECK(CheckTextFiles(arguments.texts));
  auto inputs = std::make_shared<RedoInputs>();
  inputs->layer = *arguments.layer;
  auto read = manifest::ReadManifest(directory);
  if (!read) {
    if (read.error().code != Code::kCorrupt) return std::move(read).error();
    inputs->readable = std::move(read).error();
    return std::shared_ptr<const RedoInputs>(inputs);
  }
  inputs->manifest = std::move(read).value();
  SHARD_CHECK(ReadRecords(directory, arguments, *inputs));
  SHARD_CHECK(LoadWhole(options, arguments, *inputs));
  SHARD_CHECK(WeighTexts(directory, *inputs));
  return std::shared_ptr<const RedoInputs>(inputs);
}

void RedoRefit(const RedoInputs& inputs, manifest::VerifyReport& report) {
  report.rules.push_back(kRedoRule);
  const Status done = ComputeAgain(inputs, report);
  if (done) return;
  report.findings.push_back(
      {manifest::Severity::kError, kRedoRule, "", "",
       Cat("layer ", inputs.layer,
           ": expected one that can be computed again, found an error: ", done.error().message)});
}

}  // namespace moepack::cli
