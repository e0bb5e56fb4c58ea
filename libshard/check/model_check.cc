#include "libshard/check/model_check.h"

#include <algorithm>
#include <string>

#include "libshard/check/presence.h"
#include "libshard/check/promise.h"
#include "libshard/check/shapes.h"
#include "libshard/text.h"

namespace shard {
namespace {

constexpr size_t kNamedFindings = 5;

Result<ModelPromise> PromiseOf(const MoeModel& model, const CheckOptions& options,
                               std::vector<CheckFinding>& findings) {
  if (model.checkpoint().is_gguf()) {
    return ReadGgufPromise(model.checkpoint().metadata(), model.config());
  }
  SHARD_TRY(const HfConfig config, HfConfig::Read(model.config_path().string()));
  return ReadPromise(config, options.defaults, model.config(), model.family(), findings);
}

}  // namespace

Result<std::vector<CheckFinding>> CheckModel(const MoeModel& model, const CheckOptions& options) {
  if (!model.has_config()) {
    return Error{Code::kNotFound,
                 Cat(model.config_path().string(),
                     ": expected the config that the tensors are checked against, found none"),
                 "name it with --config"};
  }
  std::vector<CheckFinding> findings;
  SHARD_TRY(const ModelPromise promise, PromiseOf(model, options, findings));
  const bool gguf = model.checkpoint().is_gguf();
  CheckPresence(model, promise, options.mtp_may_lack || gguf, findings);
  if (!model.checkpoint().names_only()) CheckShapes(model, promise, findings);
  return findings;
}

Result<std::vector<CheckFinding>> CheckConfig(const HfConfig& config, const ModelConfig& model,
                                              const Family& family) {
  std::vector<CheckFinding> findings;
  SHARD_CHECK(ReadPromise(config, "", model, family, findings));
  return findings;
}

Status RequirePromised(const MoeModel& model, const CheckOptions& options) {
  SHARD_TRY(const std::vector<CheckFinding> findings, CheckModel(model, options));
  if (findings.empty()) return Ok();
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(findings.size(), kNamedFindings); ++i) {
    texts.push_back(FindingText(findings[i]));
  }
  const size_t more = findings.size() - texts.size();
  if (more > 0) texts.push_back(Cat("and ", more, " more"));
  return Error{Code::kCorrupt, Cat(model.config_path().string(), ": ", Join(texts, "; ")),
               "moepack list-tensors --check names all disagreements with config.json"};
}

}  // namespace shard
