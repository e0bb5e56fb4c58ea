#include "manifest/write/assets.h"

#include <algorithm>
#include <string_view>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {

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
    SHARD_TRY(const ByteSourcePtr opened, from.tree.Open(source));
    SHARD_TRY(const std::string text, ReadText(*opened, kMaxAssetBytes));
    if (text.size() != asset.size) {
      return Error{Code::kCorrupt,
                   Cat(from.tree.NameOf(source), ": file size: expected ", asset.size,
                       " bytes as before, found ", text.size()),
                   "the file was changed meanwhile: run the command again"};
    }
    std::string sha256 = Sha256Hex(text);
    SHARD_CHECK(CheckPublished(*opened, sha256));
    SHARD_CHECK(to.WriteText(file, text));
    records.push_back({file, asset.size, std::move(sha256)});
  }
  return records;
}

}  // namespace moepack::manifest
