#include "manifest/write/assets.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "libshard/base/descriptor.h"
#include "libshard/base/digest.h"
#include "libshard/base/text.h"
#include "libshard/format/checkpoint_index.h"

namespace manifest {
namespace {

using shard::Cat;
using shard::Code;
using shard::Error;

}  // namespace

Result<std::vector<Asset>> ListAssets(const shard::fs::path& directory) {
  std::error_code error;
  std::vector<Asset> assets;
  for (shard::fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const shard::fs::directory_entry& entry = *it;
    std::error_code status_error;
    const std::string name = entry.path().filename().string();
    if (!IsAssetName(name)) continue;
    SHARD_CHECK(shard::IsThere(entry.path()));
    if (!entry.is_regular_file(status_error)) continue;
    SHARD_CHECK(shard::CheckInside(directory, name));
    const uint64_t size = entry.file_size(status_error);
    if (status_error) return shard::IoError(entry.path(), "size", status_error.value());
    if (size <= kMaxAssetBytes) assets.push_back({name, size});
  }
  if (error) return Error{Code::kIo, Cat(directory.string(), ": list: ", error.message())};
  std::sort(assets.begin(), assets.end(),
            [](const Asset& a, const Asset& b) { return a.name < b.name; });
  return assets;
}

Result<std::vector<AssetRecord>> CopyAssets(const shard::fs::path& from,
                                            shard::StagingDirectory& to,
                                            const std::vector<Asset>& assets) {
  std::vector<AssetRecord> records;
  for (const Asset& asset : assets) {
    const std::string file = Cat(kAssetDirectory, asset.name);
    SHARD_TRY(const std::string text, shard::ReadTextFile(from / asset.name, kMaxAssetBytes));
    if (text.size() != asset.size) {
      return Error{Code::kCorrupt,
                   Cat((from / asset.name).string(), ": file size: expected ", asset.size,
                       " bytes as before, found ", text.size()),
                   "the file was changed meanwhile: run the command again"};
    }
    SHARD_CHECK(to.WriteText(file, text));
    records.push_back({file, asset.size, shard::Sha256Hex(text)});
  }
  return records;
}

}  // namespace manifest
