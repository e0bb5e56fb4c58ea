#include "tools/commands/pack_files.h"

#include "libshard/base/files/staging.h"

namespace moepack::cli {

Result<PackResult> PackFiles(const std::vector<SourceFile>& sources, std::vector<OutputFile>& files,
                             const PackedOutput& output, const PackOptions& pack,
                             const std::function<Status()>& check) {
  SHARD_TRY(StagingDirectory staging,
            StagingDirectory::Start(output.path, PackIdentity(sources, files)));
  SHARD_TRY(PackResult packed, Pack(sources, files, staging, pack));
  if (check) SHARD_CHECK(check());
  SHARD_CHECK(staging.PublishFiles(PathsOf(files), output.force));
  return packed;
}

}  // namespace moepack::cli
