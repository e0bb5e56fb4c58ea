#include "libshard/base/files/same_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "libshard/base/parallel.h"

namespace moepack {
namespace {

constexpr uint64_t kPiece = 1u << 20;

struct OpenedFile {
  Descriptor fd;
  fs::path path;
  uint64_t size = 0;
};

Result<OpenedFile> OpenIn(const InsideDirectory& directory, const std::string& name) {
  OpenedFile file;
  file.path = directory.path() / name;
  SHARD_TRY(file.fd, directory.OpenFile(name, O_RDONLY));
  struct stat info;
  if (fstat(file.fd.get(), &info) != 0) return IoError(file.path, "look it up", errno);
  file.size = static_cast<uint64_t>(info.st_size);
  return file;
}

}  // namespace

Result<bool> HaveSameBytes(const InsideDirectory& one, const InsideDirectory& other,
                           const std::string& name) {
  SHARD_TRY(const OpenedFile a, OpenIn(one, name));
  SHARD_TRY(const OpenedFile b, OpenIn(other, name));
  if (a.size != b.size) return false;
  std::vector<std::byte> first(kPiece), second(kPiece);
  for (uint64_t at = 0; at < a.size; at += kPiece) {
    SHARD_CHECK(CheckInterrupt());
    first.resize(std::min(kPiece, a.size - at));
    second.resize(first.size());
    SHARD_CHECK(ReadAt(a.fd.get(), a.path, at, first));
    SHARD_CHECK(ReadAt(b.fd.get(), b.path, at, second));
    if (first != second) return false;
  }
  return true;
}

}  // namespace moepack
