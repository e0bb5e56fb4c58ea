#include "libshard/check/promised_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/check/promise.h"
#include "libshard/check/promised_tensors.h"
#include "libshard/format/checkpoint_index.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/family_find.h"
#include "libshard/model/hf_config.h"

namespace moepack {
namespace {

constexpr const char* kConfig = "config.json";

constexpr const char* kModelOptConfig = "hf_quant_config.json";

bool HoldsTensors(const SourceTree& tree) {
  const Result<std::vector<std::string>> names = tree.List("", "");
  // If the tree cannot be listed, opening the checkpoint says why.
  if (!names) return true;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name.ends_with(".safetensors") || name.ends_with(".gguf") || name == "distribution.json";
  });
}

// Whether a file that the index names is there, perhaps in a folder of its own. Also true if the
// index cannot be read, because opening the checkpoint says why.
bool HoldsShards(const SourceTree& tree, const std::string& index) {
  const Result<CheckpointIndex> read = ReadCheckpointIndex(tree, index);
  if (!read) return true;
  return std::any_of(read->shards.begin(), read->shards.end(), [&](const std::string& shard) {
    const Result<bool> there = tree.Has(shard);
    return !there || *there;
  });
}

// ModelOpt may describe its quantization in a file of its own beside config.json.
Result<std::string> ModelOptAlgorithm(const SourceTree& tree) {
  SHARD_TRY(const bool there, tree.Has(kModelOptConfig));
  if (!there) return std::string();
  SHARD_TRY(const std::string text, tree.ReadText(kModelOptConfig, kMaxConfigBytes));
  const std::string where = tree.NameOf(kModelOptConfig);
  SHARD_TRY(const Json document, ParseJson(where, text));
  const Json::json_pointer at("/quantization/quant_algo");
  if (!document.contains(at) || document[at].is_null()) return std::string();
  if (!document[at].is_string()) {
    return Error{Code::kCorrupt, Cat(where, ": quantization.quant_algo: expected a text, found ",
                                     DescribeJson(document[at]))};
  }
  return Cat(document[at].get<std::string>(), ", says ", kModelOptConfig);
}

}  // namespace

std::optional<std::string> IndexAlone(const Source& source) {
  if (!source.file.empty() || HoldsTensors(*source.tree)) return std::nullopt;
  const Result<std::optional<std::string>> index = FindCheckpointIndex(*source.tree);
  if (!index || !*index || HoldsShards(*source.tree, **index)) return std::nullopt;
  return *index;
}

std::optional<std::string> ConfigAlone(const Source& source) {
  if (source.file.empty()) {
    if (!source.tree->Open(kConfig) || HoldsTensors(*source.tree)) return std::nullopt;
    const Result<std::optional<std::string>> index = FindCheckpointIndex(*source.tree);
    const bool alone = index && (!*index || !HoldsShards(*source.tree, **index));
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
  if (promised.unfollowed.empty() && config == kConfig && !raw.Has(fields::kQuantization)) {
    SHARD_TRY(promised.unfollowed, ModelOptAlgorithm(*source.tree));
  }
  SHARD_TRY(Checkpoint checkpoint,
            Checkpoint::Promised(source, config, std::move(promised.tensors)));
  auto model = MoeModel::Of(std::move(checkpoint), options);
  if (!model) return std::move(model).error();
  return PromisedModel{*std::move(model), std::move(promised.missing), std::move(promised.stored),
                       std::move(promised.unfollowed), promised.partial};
}

}  // namespace moepack
