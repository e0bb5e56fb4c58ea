// refit.json, and the section "refit" of distribution.json.
#include "libshard/refit/refit_record.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tests/fuzz/target.h"

namespace refit_record_target {

constexpr const char* kWhere = "refit.json";

std::vector<std::string> Seeds() {
  moepack::RefitRecord record;
  record.steps = {"ridge", "refill", "router", "ridge"};
  record.parameters = {{"lambda", "0.01"}, {"pool", "0"}};
  record.calibration = {{"manual.md", "prose", std::string(64, '1'), 1234},
                        {"header.txt", "", std::string(64, '2'), 99}};
  record.model = std::string(16, 'a');
  record.plan = std::string(64, 'b');
  moepack::RefitOutcome accepted;
  accepted.accepted = true;
  accepted.error_before = 0.5;
  accepted.error_after = 0.25;
  accepted.neurons_moved = 12;
  accepted.slot_tokens = {600, 700};
  accepted.expert_ids = {1, 4};
  accepted.arrays = {"gate", "up", "down", "router"};
  accepted.sha256 = std::string(64, 'c');
  moepack::RefitOutcome rejected;
  rejected.group = 1;
  record.outcomes = {accepted, rejected};
  return {moepack::WriteJson(moepack::RefitToJson(record))};
}

moepack::Result<moepack::RefitRecord> Read(std::string_view input) {
  SHARD_TRY(const moepack::Json document, moepack::ParseJson(kWhere, input));
  return moepack::RefitFromJson(kWhere, document);
}

// A parsed record reads back equal after writing, and its version does not change.
std::string Check(std::string_view input) {
  const auto record = Read(input);
  if (!record) return fuzz::ErrorProblem(record.error(), kWhere);
  const auto again = Read(moepack::WriteJson(moepack::RefitToJson(*record)));
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  if (!(*again == *record)) return "another record after writing";
  return moepack::RefitVersion(*again) == moepack::RefitVersion(*record) ? "" : "another version";
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace refit_record_target

FUZZ_JSON_TARGET(FuzzRefitRecord, refit_record_target::kTarget)
