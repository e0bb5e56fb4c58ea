#include "libshard/base/files/byte_source.h"

#include <algorithm>
#include <vector>

#include "libshard/base/files/not_fetched.h"
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

Result<bool> HaveSameBytes(const ByteSource& one, const ByteSource& other) {
  if (one.size() != other.size()) return false;
  const uint64_t step = std::max(ScanStep(one), ScanStep(other));
  std::vector<std::byte> first(step), second(step);
  for (uint64_t at = 0; at < one.size(); at += step) {
    const uint64_t piece = std::min(step, one.size() - at);
    SHARD_CHECK(one.ReadAt(at, std::span(first).first(piece)));
    SHARD_CHECK(other.ReadAt(at, std::span(second).first(piece)));
    if (!std::equal(first.begin(), first.begin() + static_cast<ptrdiff_t>(piece), second.begin())) {
      return false;
    }
  }
  return true;
}

Status CheckPublished(const ByteSource& source, const std::string& sha256) {
  const std::optional<Origin> origin = source.origin();
  if (!origin || origin->sha256.empty() || origin->sha256 == sha256) return Ok();
  return Error{
      Code::kCorrupt,
      Cat(source.name(), ": SHA-256: expected ", origin->sha256, " as published, found ", sha256),
      "the file was damaged on its way, or where it is kept: run the command again, or "
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
