#include "libshard/pack/check_outputs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <span>
#include <string_view>

#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/unreadable.h"
#include "libshard/base/text/text.h"
#include "libshard/format/read_header.h"

namespace moepack {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";

Error Refused(const OutputFile& file, const std::string& reason) {
  return Unreadable(file.path, "a header", reason);
}

// Parsers sort by offset; tensors without bytes may be in any order.
bool SameTensors(const std::vector<TensorEntry>& read, const std::vector<OutputTensor>& written) {
  if (read.size() != written.size()) return false;
  for (size_t i = 0; i < read.size(); ++i) {
    const TensorEntry& entry = written[i].entry;
    if (read[i].offset != entry.offset || read[i].bytes != entry.bytes) return false;
    const bool same = read[i].name == entry.name && read[i].shape == entry.shape;
    if (!same && entry.bytes > 0) return false;
  }
  return true;
}

Status Compare(const OutputFile& file, const std::vector<TensorEntry>& read) {
  if (SameTensors(read, file.tensors)) return Ok();
  return Refused(file, "it would find other tensors than were written");
}

}  // namespace

Status ReadBackHeaders(const std::vector<OutputFile>& files) {
  for (const OutputFile& file : files) {
    const auto bytes = std::as_bytes(std::span(file.prefix.data(), file.prefix.size()));
    if (file.prefix.starts_with(kGgufMagic)) {
      // The parser itself has no limit; reading a file stops at this one (ReadGgufHeader).
      if (bytes.size() > kMaxGgufHeader) {
        return Refused(file,
                       Cat("expected at most ", kMaxGgufHeader, " bytes, found ", bytes.size()));
      }
      const Result<GgufHeader> header = ParseGguf(file.path, bytes, file.size);
      if (!header) return Refused(file, header.error().message);
      SHARD_CHECK(Compare(file, header->tensors));
    } else {
      const Result<SafetensorsHeader> header = ParseSafetensors(file.path, bytes, file.size);
      if (!header) return Refused(file, header.error().message);
      SHARD_CHECK(Compare(file, header->tensors));
    }
  }
  return Ok();
}

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
