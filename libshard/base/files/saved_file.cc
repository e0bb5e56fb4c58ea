#include "libshard/base/files/saved_file.h"

#include "libshard/base/files/descriptor.h"

namespace moepack {
namespace {

// "" if there is no file.
Result<std::string> IdentityAt(const fs::path& path) {
  SHARD_TRY(const bool there, moepack::IsThere(path));
  if (!there) return std::string();
  SHARD_TRY(const InputFile file, InputFile::Open(path));
  return file.identity();
}

}  // namespace

Result<SavedFile> SavedFile::Open(const fs::path& path) {
  SavedFile file(path);
  SHARD_TRY(file.known_, IdentityAt(path));
  return file;
}

Status SavedFile::Write(std::string_view text) {
  if (refused_) return *refused_;
  SHARD_TRY(const std::string there, IdentityAt(path_));
  const bool replace = !there.empty() && there == known_;
  Status written = WriteTextFile(path_, text, replace);
  if (!written) {
    if (written.error().code == Code::kInvalidArgument) refused_ = written.error();
    return written;
  }
  SHARD_TRY(known_, IdentityAt(path_));
  return Ok();
}

}  // namespace moepack
