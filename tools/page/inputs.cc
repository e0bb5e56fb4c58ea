#include "tools/page/inputs.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/calibrate/calibrated_store.h"
#include "libshard/import/import.h"
#include "libshard/plan/plan.h"
#include "libshard/refit/refit_store.h"
#include "libshard/stats/statistics_file.h"
#include "manifest/document/manifest_json.h"
#include "runtime-shim/experiment/document.h"
#include "tools/reports/runs/eval_read.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kMaxDocumentBytes = 512u << 20;
constexpr const char* kUnderstood =
    "report reads distributions (directories, or their distribution.json), plan.json, statistics "
    "of profile and other formats that `moepack statistics` reads, what eval --json prints, "
    "results of experiment, and the stores of refits and calibrations (directories, or their "
    "refit.json and calibration.json); of a calibrated GGUF, name the store: FILE.gguf.calibrated";

struct Document {
  std::string path, text;
  Json json;
};

using ReadInto = Status (*)(const Document& document, PageInputs& inputs);

Error Twice(const char* what, const std::string& first, const std::string& second) {
  return {Code::kInvalidArgument,
          Cat(second, ": expected one ", what, ", found a second beside ", Quoted(first)),
          "make a report for each"};
}

// A distribution has the records of its stores.
template <class Record>
void AddRecord(Record record, std::vector<Record>& records) {
  const auto found = std::find(records.begin(), records.end(), record);
  if (found == records.end()) records.push_back(std::move(record));
}

Status ReadDistribution(const Document& document, PageInputs& inputs) {
  if (inputs.distribution) return Twice("distribution", inputs.distribution_path, document.path);
  SHARD_TRY(inputs.distribution, manifest::ParseManifest(document.path, document.text));
  const fs::path directory = fs::path(document.path).parent_path();
  inputs.distribution_path = directory.empty() ? "." : directory.string();
  if (inputs.distribution->calibrated)
    AddRecord(*inputs.distribution->calibrated, inputs.calibrations);
  const auto refit = document.json.find("refit");
  if (refit == document.json.end()) return Ok();
  SHARD_TRY(RefitRecord record, RefitFromJson(Cat(document.path, ": refit"), *refit));
  AddRecord(std::move(record), inputs.refits);
  return Ok();
}

Status ReadEvaluation(const Document& document, PageInputs& inputs) {
  SHARD_TRY(EvalReport report, EvalFromJson(document.path, document.json));
  inputs.evaluations.push_back({FileName(document.path), std::move(report)});
  return Ok();
}

Status ReadRefit(const Document& document, PageInputs& inputs) {
  SHARD_TRY(RefitRecord record, RefitFromJson(document.path, document.json));
  AddRecord(std::move(record), inputs.refits);
  return Ok();
}

Status ReadCalibration(const Document& document, PageInputs& inputs) {
  SHARD_TRY(CalibratedRecord record, CalibratedFromJson(document.path, document.json));
  AddRecord(std::move(record), inputs.calibrations);
  return Ok();
}

Status ReadExperimentResults(const Document& document, PageInputs& inputs) {
  SHARD_TRY(ExperimentResults results, ExperimentFromJson(document.path, document.json));
  inputs.experiments.push_back({FileName(document.path), std::move(results)});
  return Ok();
}

// The plan's layers are those of other inputs, which may come after it.
Status NotePlan(const Document& document, PageInputs& inputs) {
  if (!inputs.plan_path.empty()) return Twice("plan", inputs.plan_path, document.path);
  inputs.plan_path = document.path;
  return Ok();
}

struct Kind {
  const char* format;
  const char* name;
  ReadInto read;
  bool shown_once = false;  // the same document, named twice, is read once
};
constexpr Kind kKinds[] = {
    {manifest::kFormatName, "distribution", ReadDistribution},
    {kPlanFormat, "plan", NotePlan},
    {kEvaluationFormat, "evaluation", ReadEvaluation, true},
    {kRefitFormat, "refit", ReadRefit, true},
    {kCalibratedFormat, "calibration", ReadCalibration, true},
    {runtime::kExperimentFormat, "experiment", ReadExperimentResults, true},
};

const Kind* FindKind(const Json& document) {
  const std::string format = document.is_object() ? TextMember(document, "format") : "";
  for (const Kind& kind : kKinds) {
    if (format == kind.format) return &kind;
  }
  return nullptr;
}

Error NotOurs(const std::string& path, const std::string& found) {
  return {Code::kUnsupported, Cat(path, ": expected a document of moepack, found ", found),
          kUnderstood};
}

// Whether a text may be a JSON object; others are statistics or something that is not understood.
bool MayBeObject(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

std::string WhatItIs(const std::optional<Json>& json) {
  if (!json) return "no JSON object";
  const std::string format = TextMember(*json, "format");
  return format.empty() ? "a JSON object without a known \"format\""
                        : Cat("\"format\": ", Quoted(format));
}

Status ReadScores(const std::string& path, const std::string& text, const std::string& found,
                  PageInputs& inputs) {
  SHARD_TRY(const Importer* importer, RecognizeFormat(path));
  if (importer == nullptr) return NotOurs(path, found);
  inputs.score_paths.push_back(path);
  inputs.files.push_back({path, "statistics", Sha256Hex(text)});
  return Ok();
}

// The document of a directory: that of a distribution, or of a store.
Result<std::string> DocumentIn(const std::string& directory) {
  for (const char* name : {manifest::kManifestFile, kCalibratedFile, kRefitFile}) {
    SHARD_TRY(const bool there, IsThere(fs::path(directory) / name));
    if (there) return Cat(directory, "/", name);
  }
  return Error{Code::kNotFound,
               Cat(directory, ": expected ", manifest::kManifestFile, ", ", kCalibratedFile, " or ",
                   kRefitFile, ", found none of them"),
               kUnderstood};
}

Status ReadOne(const std::string& path, PageInputs& inputs) {
  std::error_code error;
  Document document{path, "", Json()};
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) return IoError(path, "look it up", error.value());
  if (type == fs::file_type::directory) {
    SHARD_TRY(document.path, DocumentIn(path));
  }
  SHARD_TRY(document.text, ReadTextFile(document.path, kMaxDocumentBytes));
  std::optional<Json> json;
  if (MayBeObject(document.text)) {
    Result<Json> parsed = ParseJson(document.path, document.text);
    if (!parsed) return std::move(parsed).error();
    json = *std::move(parsed);
  }
  const Kind* kind = json ? FindKind(*json) : nullptr;
  if (kind == nullptr) return ReadScores(document.path, document.text, WhatItIs(json), inputs);
  document.json = *std::move(json);
  const std::string sha256 = Sha256Hex(document.text);
  const bool again = std::any_of(
      inputs.files.begin(), inputs.files.end(),
      [&](const PageInput& file) { return file.kind == kind->name && file.sha256 == sha256; });
  if (again && kind->shown_once) return Ok();
  SHARD_CHECK(kind->read(document, inputs));
  inputs.files.push_back({path, kind->name, sha256});
  return Ok();
}

// Distributions have the layers for multi-token prediction, statistics do not.
Status CheckStatisticsFit(PageInputs& inputs) {
  LayerCounts layers;
  for (const MoeLayerShape& shape : inputs.scores->layers) {
    const auto found = inputs.plan->layers.find(shape.layer);
    if (found != inputs.plan->layers.end()) layers.insert(*found);
  }
  return CheckScoresFit(inputs.score_paths.front(), *inputs.scores, layers);
}

Status ReadAllScores(PageInputs& inputs) {
  if (inputs.score_paths.empty()) return Ok();
  ImportOptions options;
  options.pairs = false;
  options.basis = ScoreBasis::kGateMass;
  Result<ExpertScores> scores = ReadExpertScores(inputs.score_paths, options);
  if (!scores && scores.error().code == Code::kInvalidArgument) {
    options.basis.reset();  // a format without gates
    scores = ReadExpertScores(inputs.score_paths, options);
  }
  if (!scores) {
    Error error = std::move(scores).error();
    // A GGUF is taken for an importance matrix, and may be a model.
    if (error.code == Code::kUnsupported && error.hint.empty()) error.hint = kUnderstood;
    return error;
  }
  inputs.scores = *std::move(scores);
  for (const std::string& warning : inputs.scores->warnings) inputs.warnings.push_back(warning);
  return Ok();
}

Status ReadPlan(PageInputs& inputs) {
  if (inputs.distribution) inputs.plan = inputs.distribution->plan;
  if (inputs.plan_path.empty()) return Ok();
  LayerCounts layers;
  std::map<uint32_t, uint32_t> top_k;
  if (inputs.distribution) {
    layers = inputs.plan->layers;
    top_k = inputs.plan->top_k;
  } else if (inputs.scores) {
    for (const MoeLayerShape& shape : inputs.scores->layers) {
      layers[shape.layer] = shape.expert_count;
      top_k[shape.layer] = shape.top_k;
    }
  } else {
    return Error{Code::kInvalidArgument,
                 Cat(inputs.plan_path,
                     ": layers: expected statistics or a distribution of the same "
                     "model beside the plan, found neither"),
                 "a plan does not say how many experts the model has"};
  }
  SHARD_TRY(const Json document, ReadJsonFile(inputs.plan_path, kMaxDocumentBytes));
  SHARD_TRY(Plan plan, PlanFileFromJson(inputs.plan_path, document, layers, top_k));
  if (!inputs.distribution) {
    inputs.plan = std::move(plan);
    return Ok();
  }
  if (PartitionToJson(plan) != PartitionToJson(*inputs.plan)) {
    return Error{Code::kMismatch,
                 Cat(inputs.plan_path, ": partition: expected that of ", inputs.distribution_path,
                     ", found another"),
                 "report on one split at a time"};
  }
  inputs.plan->expectation = std::move(plan.expectation);
  if (plan.placement) inputs.plan->placement = std::move(plan.placement);
  return Ok();
}

// Reads the plan's expectation from a distribution.
Status ReadExpectation(PageInputs& inputs) {
  if (!inputs.distribution || inputs.plan->expectation || !inputs.distribution->original)
    return Ok();
  const Json& carried = *inputs.distribution->original;
  const auto calibration = carried.find("calibration"), quality = carried.find("quality");
  if (calibration == carried.end() || quality == carried.end() || !quality->is_object() ||
      !quality->contains("expected"))
    return Ok();
  const Json document = {{"scheme", inputs.plan->scheme},
                         {"calibration", *calibration},
                         {"expected", (*quality)["expected"]}};
  SHARD_TRY(inputs.plan->expectation,
            ExpectationFromJson(inputs.distribution_path, document, inputs.plan->groups.size(),
                                inputs.plan->layers));
  return Ok();
}

// Evaluations of another split are shown, because they are meant for comparison, but not as if they
// were for this one.
void CheckVersions(PageInputs& inputs) {
  if (!inputs.distribution) return;
  const manifest::Versions& expected = inputs.distribution->versions;
  for (const PageEvaluation& evaluation : inputs.evaluations) {
    const manifest::Versions& found = evaluation.report.versions;
    if (!evaluation.report.distribution ||
        (found.model == expected.model && found.shard == expected.shard &&
         found.replica == expected.replica))
      continue;
    inputs.warnings.push_back(Cat(evaluation.name, ": it measures another split than that of ",
                                  inputs.distribution_path, " (versions ", Shown(found.model), ", ",
                                  Shown(found.shard), ", ",
                                  found.replica.empty() ? "none" : Shown(found.replica), ")"));
  }
}

}  // namespace

Result<PageInputs> ReadPageInputs(const std::vector<std::string>& paths) {
  PageInputs inputs;
  for (const std::string& path : paths) SHARD_CHECK(ReadOne(path, inputs));
  SHARD_CHECK(ReadAllScores(inputs));
  SHARD_CHECK(ReadPlan(inputs));
  if (inputs.scores && inputs.plan) SHARD_CHECK(CheckStatisticsFit(inputs));
  SHARD_CHECK(ReadExpectation(inputs));
  CheckVersions(inputs);
  return inputs;
}

}  // namespace moepack::cli
