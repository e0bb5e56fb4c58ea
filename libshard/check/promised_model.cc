#include "libshard/check/promised_model.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/check/promise.h"
#include "libshard/check/promised_tensors.h"
#include "libshard/model/family_find.h"
#include "libshard/model/hf_config.h"

namespace moepack {
namespace {

constexpr const char* kConfig = "config.json";

bool HoldsTensors(const SourceTree& tree) {
  const Result<std::vector<std::string>> names = tree.List("", "");
  // If the tree cannot be listed, opening the checkpoint says why.
  if (!names) return true;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name.ends_with(".safetensors") || name.ends_with(".index.json") ||
           name.ends_with(".gguf") || name == "distribution.json";
  });
}

}  // namespace

std::optional<std::string> ConfigAlone(const Source& source) {
  if (source.file.empty()) {
    const bool alone = source.tree->Open(kConfig) && !HoldsTensors(*source.tree);
    return alone ? std::optional<std::string>(kConfig) : std::nullopt;
  }
  const std::string& name = source.file;
  const bool fits =
      name.ends_with(".json") && !name.ends_with(".index.json") && name != "distribution.json";
  return fits && source.tree->Open(name) ? std::optional(name) : std::nullopt;
}

Result<PromisedModel> OpenPromised(const Source& source, const std::string& config,
                                   const ModelOptions& options) {
  const std::string where = source.tree->NameOf(config);
  SHARD_TRY(const std::string text, source.tree->ReadText(config, kMaxConfigBytes));
  SHARD_TRY(const HfConfig raw, HfConfig::Parse(where, text));
  SHARD_TRY(const ModelConfig read, ParseModelConfig(where, text));
  Family own;
  const Family* family = &own;
  if (!options.family_file.empty()) {
    SHARD_TRY(own, ReadFamilyFile(options.family_file));
  } else {
    SHARD_TRY(family, FindFamily(where, read));
  }
  std::vector<CheckFinding> findings;
  SHARD_TRY(const ModelPromise promise, ReadPromise(raw, "", read, *family, findings));
  if (!findings.empty()) {
    return Error{Code::kCorrupt, Cat(where, ": ", FindingText(findings[0]))};
  }
  SHARD_TRY(PromisedTensors promised, PromiseTensors(raw, read, *family, promise));
  SHARD_TRY(Checkpoint checkpoint,
            Checkpoint::Promised(source, config, std::move(promised.tensors)));
  auto model = MoeModel::Of(std::move(checkpoint), options);
  if (!model) return std::move(model).error();
  return PromisedModel{*std::move(model), std::move(promised.missing), std::move(promised.stored),
                       std::move(promised.unfollowed)};
}

}  // namespace moepack
