#include "libshard/check/model_check.h"

#include <algorithm>
#include <string>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/check/presence.h"
#include "libshard/check/promise.h"
#include "libshard/check/shapes.h"

namespace moepack {
namespace {

constexpr size_t kNamedFindings = 5;

Result<ModelPromise> PromiseOf(const MoeModel& model, const CheckOptions& options,
                               std::vector<CheckFinding>& findings) {
  if (model.checkpoint().is_gguf()) {
    return ReadGgufPromise(model.checkpoint().metadata(), model.config());
  }
  SHARD_TRY(const HfConfig config,
            HfConfig::Parse(model.config_path().string(), model.config_text()));
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
  CheckPresence(model, promise, options.mtp_may_lack, findings);
  if (!model.checkpoint().names_only()) CheckShapes(model, promise, findings);
  return findings;
}

Result<std::vector<CheckFinding>> CheckConfig(const HfConfig& config, const ModelConfig& model,
                                              const Family& family) {
  std::vector<CheckFinding> findings;
  SHARD_CHECK(ReadPromise(config, "", model, family, findings));
  return findings;
}

namespace {

// Returns a hint with a list-tensors command. There is none for a config alone, which has no
// tensors to list, or for a checkpoint that was assembled in memory. A --family file is not known
// here.
std::string CheckHint(const MoeModel& model) {
  const SourceTree& tree = *model.checkpoint().tree();
  if (model.checkpoint().promised() || !tree.LocalPath("")) return "";
  const fs::path& config = model.config_path();
  std::vector<std::string> words = {"moepack", "list-tensors",
                                    PathArgument(model.checkpoint().source().string())};
  const bool beside = model.checkpoint().is_gguf() || config == tree.NameOf("config.json");
  if (!beside) words.insert(words.end(), {"--config", PathArgument(config.string())});
  words.emplace_back("--check");
  return Cat("`", ShellCommand(words), "` names everything that disagrees");
}

}  // namespace

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
               CheckHint(model)};
}

}  // namespace moepack
