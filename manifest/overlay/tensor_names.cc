#include "manifest/overlay/tensor_names.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/model/config.h"
#include "libshard/model/family_find.h"
#include "libshard/model/gguf_experts.h"
#include "libshard/model/hf_config.h"
#include "manifest/document/asset_names.h"

namespace moepack::manifest {
namespace {

// A family of the list, which lives as long as the program.
std::shared_ptr<const Family> BuiltIn(const Family* family) {
  return {std::shared_ptr<void>(), family};
}

}  // namespace

Result<TensorNames> TensorNames::Of(const SourceTree& tree, const Manifest& manifest,
                                    const std::string& family_file) {
  TensorNames names;
  if (manifest.is_gguf()) {
    names.family_ = BuiltIn(&GgufFamily());
    return names;
  }
  if (!family_file.empty()) {
    SHARD_TRY(Family family, ReadFamilyFile(family_file));
    names.family_ = std::make_shared<const Family>(std::move(family));
    return names;
  }
  const bool listed = std::any_of(manifest.assets.begin(), manifest.assets.end(),
                                  [](const AssetRecord& one) { return one.file == kConfigAsset; });
  if (!listed) {
    return Error{Code::kNotFound,
                 Cat(tree.name(), ": ", kConfigAsset, ": expected it in the manifest, found none"),
                 "add the assets with shard-experts --only assets"};
  }
  SHARD_TRY(const std::string text, tree.ReadText(kConfigAsset, kMaxConfigBytes));
  const std::string where = tree.NameOf(kConfigAsset);
  SHARD_TRY(const ModelConfig config, ParseModelConfig(where, text));
  SHARD_TRY(const Family* const family, FindFamily(where, config));
  names.family_ = BuiltIn(family);
  return names;
}

}  // namespace moepack::manifest
