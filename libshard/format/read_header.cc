#include "libshard/format/read_header.h"

#include <algorithm>
#include <span>
#include <vector>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/lfs_pointer.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// The headers of most models fit in this. For a longer GGUF header, more is read and parsed again.
constexpr uint64_t kFirstPiece = 1u << 20;

Result<std::vector<std::byte>> ReadFirst(const ByteSource& file, uint64_t bytes) {
  std::vector<std::byte> out(std::min(bytes, file.size()));
  SHARD_CHECK(file.ReadAt(0, out));
  return out;
}

Status CheckFetched(const ByteSource& file, const std::string& name) {
  constexpr uint64_t kMaxPointer = 1024;
  if (file.size() > kMaxPointer) return Ok();
  SHARD_TRY(const std::vector<std::byte> bytes, ReadFirst(file, kMaxPointer));
  return CheckNoLfsPointer(name, bytes);
}

}  // namespace

Result<SafetensorsHeader> ReadSafetensorsHeader(const ByteSource& file, const std::string& name) {
  SHARD_CHECK(CheckFetched(file, name));
  SHARD_TRY(std::vector<std::byte> bytes, ReadFirst(file, kSafetensorsLengthBytes));
  if (bytes.size() == kSafetensorsLengthBytes) {
    // The parser gets only these eight bytes if the length is beyond the file, and refuses it.
    const auto length = LoadLe<uint64_t>(bytes);
    if (length <= std::min(kMaxSafetensorsHeader, file.size() - kSafetensorsLengthBytes)) {
      SHARD_TRY(bytes, ReadFirst(file, kSafetensorsLengthBytes + length));
    }
  }
  return ParseSafetensors(name, bytes, file.size());
}

Result<GgufHeader> ReadGgufHeader(const ByteSource& file, const std::string& name) {
  SHARD_CHECK(CheckFetched(file, name));
  for (uint64_t piece = kFirstPiece;;) {
    SHARD_TRY(const std::vector<std::byte> bytes, ReadFirst(file, piece));
    uint64_t needed = 0;
    Result<GgufHeader> header = ParseGguf(name, bytes, file.size(), &needed);
    if (needed == 0) return header;
    if (needed > kMaxGgufHeader) {
      return Error{Code::kCorrupt, Cat(name, ": header: expected at most ", kMaxGgufHeader,
                                       " bytes, found at least ", needed)};
    }
    piece = std::min(std::max(2 * piece, needed), kMaxGgufHeader);
  }
}

Result<std::string> Sha256OfStart(const ByteSource& file, uint64_t bytes) {
  Sha256 sha256;
  std::vector<std::byte> buffer(std::min(kFirstPiece, bytes));
  for (uint64_t at = 0; at < bytes;) {
    const auto piece = std::span(buffer).first(std::min<uint64_t>(buffer.size(), bytes - at));
    SHARD_CHECK(file.ReadAt(at, piece));
    sha256.Update(piece);
    at += piece.size();
  }
  return sha256.Finish();
}

}  // namespace moepack
