#include "libshard/base/files/byte_source.h"

#include "libshard/base/files/lfs_pointer.h"
#include "libshard/base/text/text.h"

namespace moepack {

Result<std::string> ReadText(const ByteSource& source, uint64_t limit) {
  if (source.size() > limit) {
    return Error{Code::kCorrupt, Cat(source.name(), ": file size: expected at most ", limit,
                                     " bytes, found ", source.size())};
  }
  std::string text(source.size(), '\0');
  SHARD_CHECK(source.ReadAt(0, std::as_writable_bytes(std::span(text))));
  SHARD_CHECK(CheckNoLfsPointer(source.name(), text));
  return text;
}

Status CheckPublished(const ByteSource& source, const std::string& sha256) {
  const std::optional<Origin> origin = source.origin();
  if (!origin || origin->sha256.empty() || origin->sha256 == sha256) return Ok();
  return Error{
      Code::kCorrupt,
      Cat(source.name(), ": SHA-256: expected ", origin->sha256, " as published, found ", sha256),
      "the file was corrupted on its way, or where it is kept: run the command again, or "
      "use another mirror"};
}

Error ChangedWhileRead(const std::string& name) {
  return {Code::kCorrupt, Cat(name, ": the file was changed while it was read"),
          "wait until whatever writes it (a download?) is done, then run the command again"};
}

Error EndsEarly(const std::string& name, uint64_t offset, uint64_t wanted, uint64_t found) {
  return {Code::kCorrupt, Cat(name, ": read at offset ", offset, ": expected ", wanted,
                              " bytes, found ", found, " before the end of the file")};
}

}  // namespace moepack
