#include "libshard/pack/split_set.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "libshard/base/files/inside_directory.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using Kind = InsideDirectory::Kind;

// Whether the file there has the size and the header of `file`.
Result<bool> LooksLike(const OutputFile& file, const InsideDirectory& directory) {
  SHARD_TRY(const Descriptor fd, directory.OpenFile(file.path, O_RDONLY));
  struct stat info;
  const fs::path path = directory.path() / file.path;
  if (fstat(fd.get(), &info) != 0) return IoError(path, "look it up", errno);
  if (static_cast<uint64_t>(info.st_size) != file.size) return false;
  std::string header(file.prefix.size(), '\0');
  SHARD_CHECK(ReadAt(fd.get(), path, 0, std::as_writable_bytes(std::span(header))));
  return header == file.prefix;
}

}  // namespace

Status CheckMayPublish(const fs::path& directory, const std::vector<OutputFile>& files,
                       bool replace) {
  for (const OutputFile& file : files) {
    const fs::path path = directory / file.path;
    SHARD_TRY(const bool in_the_way, IsDirectory(path));
    if (in_the_way) {
      return Error{Code::kInvalidArgument, Cat(path.string(), " is a directory"),
                   "move it away, or choose another output"};
    }
    SHARD_TRY(const bool mounted, IsMountPoint(path));
    if (mounted) return CannotReplaceMountedFile(path);
    SHARD_TRY(const bool taken, IsTaken(path));
    if (!taken || replace) continue;
    SHARD_TRY(const InsideDirectory there,
              InsideDirectory::Open(directory.empty() ? "." : directory));
    SHARD_TRY(const Kind kind, there.KindOf(file.path));
    bool ours = false;
    if (kind == Kind::kFile && &file != &files.front()) {
      SHARD_TRY(ours, LooksLike(file, there));
    }
    if (!ours) {
      return Error{Code::kInvalidArgument, Cat(path.string(), " already exists"),
                   "--force replaces it, and -o names another file"};
    }
  }
  return Ok();
}

}  // namespace moepack
