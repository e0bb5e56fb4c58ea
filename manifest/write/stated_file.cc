#include "manifest/write/stated_file.h"

#include <memory>
#include <utility>

#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/progress.h"
#include "libshard/base/text/text.h"
#include "manifest/document/corrupt.h"

namespace moepack::manifest {
namespace {

Result<ByteSourcePtr> OpenStated(const StatedFile& file) {
  if (file.copy.empty()) return file.tree->Open(file.file);
  SHARD_TRY(InputFile copy, InputFile::Open(file.copy));
  return ByteSourcePtr(std::make_shared<const InputFile>(std::move(copy)));
}

}  // namespace

Status CheckDigest(const StatedFile& file, const std::string& sha256) {
  if (sha256 == file.sha256) return Ok();
  return Error{
      Code::kMismatch,
      Cat(file.tree->NameOf(file.file), ": sha256: expected ", file.sha256, ", found ", sha256),
      kCorruptHint};
}

Status CheckFileDigests(const std::vector<StatedFile>& files, const PackOptions& options) {
  uint64_t total = 0;
  for (const StatedFile& file : files) total += file.size;
  ProgressCounter progress(options.progress, total);
  const size_t jobs = ThreadsForFiles(options.jobs);
  return ParallelFor(files.size(), jobs, [&](size_t i) -> Status {
    const StatedFile& file = files[i];
    SHARD_TRY(const ByteSourcePtr opened, OpenStated(file));
    SHARD_TRY(const std::string sha256,
              Sha256Of(*opened, [&](uint64_t bytes) { progress.Add(bytes); }));
    return CheckDigest(file, sha256);
  });
}

}  // namespace moepack::manifest
