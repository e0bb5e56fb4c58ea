// What a report is made from: documents of moepack, recognised by what they say about themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_record.h"
#include "libshard/refit/refit_record.h"
#include "libshard/stats/expert_scores.h"
#include "manifest/document/manifest.h"
#include "tools/reports/runs/eval_report.h"
#include "tools/reports/runs/experiment_read.h"

namespace moepack::cli {

// One document, in the order in which they were named.
struct PageInput {
  std::string path, kind;  // kind: "distribution", "evaluation", ...
  std::string sha256;      // of the bytes of the document; for a distribution, distribution.json
};

struct PageEvaluation {
  std::string name;  // of the file, without directories
  EvalReport report;
};

struct PageExperiment {
  std::string name;  // of the file, without directories
  ExperimentResults results;
};

struct PageInputs {
  std::vector<PageInput> files;

  std::string distribution_path;  // "" if there is none
  std::optional<manifest::Manifest> distribution;
  // The groups: those of the distribution, otherwise of a plan file.
  std::string plan_path;  // "" if there is none
  std::optional<Plan> plan;
  std::optional<ExpertScores> scores;  // of all files together
  std::vector<std::string> score_paths;
  std::vector<PageEvaluation> evaluations;
  std::vector<RefitRecord> refits;
  std::vector<CalibratedRecord> calibrations;
  std::vector<PageExperiment> experiments;

  // What a reader should know about inputs that do not belong together.
  std::vector<std::string> warnings;
};

// Reads directories of distributions and of stores, the documents in these, plans, statistics and
// scores, evaluations, experiments and records of refits and calibrations, all of them hostile.
// Anything else is kUnsupported, with its name and the list of what is supported. kInvalidArgument
// for two distributions or two plans, and for a plan alone, which does not say how many experts the
// model has; kMismatch for documents of another model.
Result<PageInputs> ReadPageInputs(const std::vector<std::string>& paths);

}  // namespace moepack::cli
