#include "runtime-shim/refit/refit_options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/refit/node_top_k.h"

namespace moepack::runtime {
namespace {

// The parameters of a record that are counts, and those that are not.
struct CountParameter {
  const char* name;
  uint64_t (*get)(const RefitOptions& options);
  void (*set)(RefitOptions& options, uint64_t value);
};
constexpr CountParameter kCounts[] = {
    {"pool", [](const RefitOptions& o) { return o.pool; },
     [](RefitOptions& o, uint64_t value) { o.pool = value; }},
    {"tokens", [](const RefitOptions& o) { return o.tokens; },
     [](RefitOptions& o, uint64_t value) { o.tokens = value; }},
    {"context", [](const RefitOptions& o) { return uint64_t{o.context}; },
     [](RefitOptions& o, uint64_t value) { o.context = static_cast<uint32_t>(value); }},
    {"fold", [](const RefitOptions& o) { return uint64_t{o.fold}; },
     [](RefitOptions& o, uint64_t value) { o.fold = static_cast<uint32_t>(value); }},
    {"sweeps", [](const RefitOptions& o) { return uint64_t{o.sweeps}; },
     [](RefitOptions& o, uint64_t value) { o.sweeps = static_cast<uint32_t>(value); }},
    {"least_tokens", [](const RefitOptions& o) { return o.least_tokens; },
     [](RefitOptions& o, uint64_t value) { o.least_tokens = value; }},
    {kNodeTopK, [](const RefitOptions& o) { return uint64_t{o.top_k}; },
     [](RefitOptions& o, uint64_t value) { o.top_k = static_cast<uint32_t>(value); }},
    {"memory", [](const RefitOptions& o) { return o.memory; },
     [](RefitOptions& o, uint64_t value) { o.memory = value; }},
};
struct RealParameter {
  const char* name;
  double RefitOptions::*value;
};
constexpr RealParameter kReals[] = {{"lambda", &RefitOptions::lambda},
                                    {"foreign_weight", &RefitOptions::foreign_weight}};

Error BadParameter(const std::string& where, const char* name, const std::string& found) {
  return {Code::kCorrupt, Cat(where, ": parameters: ", name, ": expected a number, found ", found)};
}

Result<std::string> ParameterText(const std::string& where, const RefitRecord& record,
                                  const char* name) {
  const auto found = record.parameters.find(name);
  if (found == record.parameters.end()) return BadParameter(where, name, "none");
  return found->second;
}

constexpr const char* kExecutorParameter = "executor";

// Only a record with this step has it, so that records without one stay as they were before there
// was such a step.
constexpr const char* kUpdatesParameter = "updates";
bool Tunes(const std::vector<std::string>& steps) {
  return std::find(steps.begin(), steps.end(), kTuneStep) != steps.end();
}

// Windows and folds are small numbers; memory and tokens are not.
constexpr uint64_t kMostSmall = 1u << 24;

}  // namespace

Status CheckSteps(const std::string& where, const std::vector<std::string>& steps) {
  const std::vector<std::string> known = {kRidgeStep, kRefillStep, kRouterStep, kTuneStep};
  if (steps.empty())
    return Error{Code::kInvalidArgument, Cat(where, ": expected at least one, found none")};
  for (const std::string& step : steps) {
    if (std::find(known.begin(), known.end(), step) != known.end()) continue;
    return Error{Code::kInvalidArgument,
                 Cat(where, ": expected ", Join(known, ", "), ", found ", Quoted(step))};
  }
  return Ok();
}

void RecordOptions(const RefitOptions& options, RefitRecord& record) {
  record.steps = options.steps;
  for (const CountParameter& count : kCounts)
    record.parameters[count.name] = Cat(count.get(options));
  for (const RealParameter& real : kReals) record.parameters[real.name] = Cat(options.*real.value);
  if (Tunes(options.steps)) record.parameters[kUpdatesParameter] = Cat(options.updates);
  // Records of the default do not name it, so that they stay as they were before it was recorded.
  if (options.executor != kRefitExecutor) record.parameters[kExecutorParameter] = options.executor;
}

Result<RefitOptions> OptionsOf(const std::string& where, const RefitRecord& record) {
  RefitOptions options;
  options.steps = record.steps;
  SHARD_CHECK(CheckSteps(Cat(where, ": steps"), options.steps));
  for (const CountParameter& count : kCounts) {
    SHARD_TRY(const std::string text, ParameterText(where, record, count.name));
    const std::optional<uint64_t> value = ParseUint(text);
    if (!value) return BadParameter(where, count.name, Quoted(text));
    count.set(options, *value);
  }
  for (const RealParameter& real : kReals) {
    SHARD_TRY(const std::string text, ParameterText(where, record, real.name));
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !std::isfinite(value) || value < 0)
      return BadParameter(where, real.name, Quoted(text));
    options.*real.value = value;
  }
  if (Tunes(options.steps)) {
    SHARD_TRY(const std::string text, ParameterText(where, record, kUpdatesParameter));
    const std::optional<uint64_t> value = ParseUint(text);
    if (!value || *value == 0 || *value > kMostUpdates)
      return BadParameter(where, kUpdatesParameter, Quoted(text));
    options.updates = static_cast<uint32_t>(*value);
  }
  const auto executor = record.parameters.find(kExecutorParameter);
  if (executor != record.parameters.end()) options.executor = executor->second;
  SHARD_CHECK(NodeTopK(where, record));
  if (options.context < 2 || options.context > kMostSmall || options.fold < 2)
    return BadParameter(where, "context, fold", Cat(options.context, ", ", options.fold));
  return options;
}

}  // namespace moepack::runtime
