#include "libshard/check/promised_model.h"

#include <algorithm>

#include "libshard/base/text.h"
#include "libshard/check/promise.h"
#include "libshard/check/promised_tensors.h"
#include "libshard/model/family_find.h"
#include "libshard/model/hf_config.h"

namespace shard {
namespace {

constexpr const char* kConfig = "config.json";

bool HoldsTensors(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".index.json") ||
        name.ends_with(".gguf") || name == "distribution.json") {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<fs::path> ConfigAlone(const fs::path& source) {
  std::error_code error;
  if (fs::is_directory(source, error)) {
    const fs::path config = source / kConfig;
    if (!fs::is_regular_file(config, error) || HoldsTensors(source)) return std::nullopt;
    return config;
  }
  const std::string name = source.filename().string();
  const bool fits =
      name.ends_with(".json") && !name.ends_with(".index.json") && name != "distribution.json";
  return fits && fs::is_regular_file(source, error) ? std::optional(source) : std::nullopt;
}

Result<PromisedModel> OpenPromised(const fs::path& source, const fs::path& config,
                                   const ModelOptions& options) {
  SHARD_TRY(const HfConfig raw, HfConfig::Read(config.string()));
  SHARD_TRY(const ModelConfig read, ReadModelConfig(config.string()));
  Family own;
  const Family* family = &own;
  if (!options.family_file.empty()) {
    SHARD_TRY(own, ReadFamilyFile(options.family_file));
  } else {
    SHARD_TRY(family, FindFamily(config.string(), read));
  }
  std::vector<CheckFinding> findings;
  SHARD_TRY(const ModelPromise promise, ReadPromise(raw, "", read, *family, findings));
  if (!findings.empty()) {
    return Error{Code::kCorrupt, Cat(config.string(), ": ", FindingText(findings[0]))};
  }
  SHARD_TRY(PromisedTensors promised, PromiseTensors(raw, read, *family, promise));
  SHARD_TRY(Checkpoint checkpoint,
            Checkpoint::Promised(source, config, std::move(promised.tensors)));
  ModelOptions with_config = options;
  with_config.config_file = config.string();
  auto model = MoeModel::Of(std::move(checkpoint), with_config);
  if (!model) return std::move(model).error();
  return PromisedModel{*std::move(model), std::move(promised.missing), std::move(promised.stored),
                       std::move(promised.unfollowed)};
}

}  // namespace shard
