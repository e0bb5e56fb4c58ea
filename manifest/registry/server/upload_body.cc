#include "manifest/registry/server/upload_body.h"

#include <algorithm>
#include <cstring>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {

Status UploadBody::Restart() {
  sha256_ = Sha256();
  hashed_ = 0;
  if (source_.size() != blob_.size) {
    return Error{Code::kMismatch, Cat(source_.name(), ": size: expected ", blob_.size,
                                      " bytes, found ", source_.size())};
  }
  return blob_.size == 0 ? Compare() : Ok();
}

Status UploadBody::Compare() {
  SHARD_CHECK(source_.CheckUnchanged());
  const std::string found = sha256_.Finish();
  if (DigestOf(found) == blob_.digest) return Ok();
  return Error{Code::kMismatch,
               Cat(source_.name(), ": sha256: expected ", HexOf(blob_.digest), ", found ", found)};
}

Status UploadBody::Hash(std::span<const std::byte> bytes) {
  sha256_.Update(bytes);
  hashed_ += bytes.size();
  if (hashed_ > told_) {
    if (read_) read_(hashed_ - told_);
    told_ = hashed_;
  }
  // Compares before the last bytes are handed out, so the registry never gets a complete wrong
  // blob.
  return hashed_ == blob_.size ? Compare() : Ok();
}

Status UploadBody::ReadSource(uint64_t offset, std::span<std::byte> out) {
  if (!source_.far()) return source_.ReadAt(offset, out);
  while (!out.empty()) {
    const bool held = offset >= ahead_.offset && offset < ahead_.offset + ahead_.bytes.size();
    if (!held) {
      ahead_.bytes.resize(std::min<uint64_t>(ScanStep(source_), blob_.size - offset));
      ahead_.offset = offset;
      if (Status read = source_.ReadAt(offset, ahead_.bytes); !read) {
        ahead_.bytes.clear();
        return read;
      }
    }
    const size_t from = offset - ahead_.offset;
    const size_t count = std::min(out.size(), ahead_.bytes.size() - from);
    std::memcpy(out.data(), ahead_.bytes.data() + from, count);
    out = out.subspan(count);
    offset += count;
  }
  return Ok();
}

Status UploadBody::Read(uint64_t offset, std::span<std::byte> out) {
  std::vector<std::byte> between(
      std::min<uint64_t>(ScanStep(source_), offset > hashed_ ? offset - hashed_ : 0));
  while (hashed_ < offset) {
    SHARD_CHECK(CheckInterrupt());
    const auto piece =
        std::span(between).first(std::min<uint64_t>(between.size(), offset - hashed_));
    SHARD_CHECK(ReadSource(hashed_, piece));
    SHARD_CHECK(Hash(piece));
  }
  SHARD_CHECK(ReadSource(offset, out));
  const uint64_t again = std::min<uint64_t>(out.size(), hashed_ - offset);
  return again == out.size() ? Ok() : Hash(out.subspan(again));
}

remote::HttpBody UploadBody::Part(uint64_t offset, uint64_t size) {
  return {size,
          [this, offset](uint64_t at, std::span<std::byte> out) { return Read(offset + at, out); }};
}

}  // namespace moepack::registry
