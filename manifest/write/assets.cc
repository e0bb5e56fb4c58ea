#include "manifest/write/assets.h"

#include <algorithm>
#include <string_view>

#include "libshard/base/digest.h"
#include "libshard/base/inside_path.h"
#include "libshard/base/text.h"

namespace moepack::manifest {
namespace {}  // namespace

Result<std::vector<Asset>> ListAssets(const SourceTree& checkpoint) {
  SHARD_TRY(const std::vector<std::string> names, checkpoint.List("", ""));
  std::vector<Asset> assets;
  for (const std::string& name : names) {
    if (!IsAssetName(name)) continue;
    SHARD_TRY(const ByteSourcePtr source, checkpoint.Open(name));
    if (source->size() <= kMaxAssetBytes) assets.push_back({name, source->size()});
  }
  return assets;
}

Result<std::vector<AssetRecord>> CopyAssets(const AssetFolder& from, StagingDirectory& to,
                                            const std::vector<Asset>& assets) {
  std::vector<AssetRecord> records;
  for (const Asset& asset : assets) {
    const std::string file = Cat(kAssetDirectory, asset.name);
    const std::string source = Cat(from.folder, asset.name);
    SHARD_TRY(const std::string text, from.tree.ReadText(source, kMaxAssetBytes));
    if (text.size() != asset.size) {
      return Error{Code::kCorrupt,
                   Cat(from.tree.NameOf(source), ": file size: expected ", asset.size,
                       " bytes as before, found ", text.size()),
                   "the file was changed meanwhile: run the command again"};
    }
    SHARD_CHECK(to.WriteText(file, text));
    records.push_back({file, asset.size, Sha256Hex(text)});
  }
  return records;
}

}  // namespace moepack::manifest
