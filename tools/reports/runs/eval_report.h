// The output of `eval`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/calibrate/calibrated_record.h"
#include "manifest/document/manifest.h"
#include "runtime-shim/eval/summary.h"
#include "tools/reports/ci_report.h"

namespace moepack::cli {

inline constexpr const char* kEvaluationFormat = "moepack-evaluation";
inline constexpr unsigned kEvaluationVersion = 1;

struct EvalReport {
  runtime::EvalSummary summary;
  std::string source, against;  // "" without --against
  std::string executor, precision;
  uint32_t context = 0;
  bool score_half = false;
  std::vector<std::string> failed;  // gates, a sentence each
  struct GateOutcome {
    std::string gate;                 // as it was given
    std::vector<std::string> failed;  // why it fails, a sentence each
  };
  std::vector<GateOutcome> gates;
  bool distribution = false;  // otherwise a model without groups
  // For a distribution: which one it is, and its figures by group and bucket.
  manifest::Versions versions = {};
  std::optional<manifest::QualityRecord> quality = std::nullopt;
  std::optional<CalibrationKeys> calibrated = std::nullopt;  // how its weights were encoded
};

std::string EvalText(const EvalReport& report);
moepack::Json EvalJson(const EvalReport& report);
// One test case per gate, and one for the evaluation having run; its figures are notes.
CiReport EvalCi(const EvalReport& report);

}  // namespace moepack::cli
