// How experts were refitted: the contents of refit.json, and what a distribution records of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/json.h"
#include "libshard/refit/calibration_text.h"

namespace moepack {

inline constexpr const char* kRefitFormat = "moepack-refit";
inline constexpr unsigned kRefitMajor = 1;

// The outcome for one group in one layer.
struct RefitOutcome {
  uint32_t layer = 0, group = 0;
  bool accepted = false;
  // On the held-out part of the text: mean of |Y - y|^2 / mean of |Y|^2, where Y is what the full
  // model adds to the node's stream and y is what the node adds. Finite, at least 0.
  double error_before = 0, error_after = 0;
  uint64_t neurons_moved = 0;
  std::vector<uint64_t> slot_tokens;  // of each refitted slot: calibration tokens routed to it
  // Describes what was accepted; set by the store. The experts, the names of the arrays in the
  // store's file, and its digest of 64 hexadecimal digits. Empty unless accepted.
  ExpertIds expert_ids;
  std::vector<std::string> arrays;
  std::string sha256;
  bool operator==(const RefitOutcome&) const = default;
};

struct RefitRecord {
  std::vector<std::string> steps;  // in the order in which they ran: "ridge", "refill", ...
  // Everything else that determines the result, as text: "lambda" -> "0.01".
  std::map<std::string, std::string> parameters;
  std::vector<CalibrationText> calibration;
  std::string model;  // MoeModel::Version("") of the source
  std::string plan;   // RefitPlanDigest()
  // Ascending by (layer, group).
  std::vector<RefitOutcome> outcomes;
  bool operator==(const RefitRecord&) const = default;

  // Null for a pair that is not there.
  const RefitOutcome* Find(uint32_t layer, uint32_t group) const;
  // Whether any group has an outcome there.
  bool HasLayer(uint32_t layer) const;
};

// The parameters as options of `moepack refit`, "--lambda 0.01", in the order of their names.
// Those that are 0 are left out, since they stand for what the model or the text has, and so are
// those that no option sets.
std::vector<std::string> ParameterOptions(const RefitRecord& record);

Json RefitToJson(const RefitRecord& record);
// The text may be hostile. kCorrupt for a wrong structure, kUnsupported for another major version.
Result<RefitRecord> RefitFromJson(const std::string& where, const Json& document);

// The refit version that a node reports: 16 hexadecimal digits of a digest over the record, which
// has the digest of every file.
std::string RefitVersion(const RefitRecord& record);

}  // namespace moepack
