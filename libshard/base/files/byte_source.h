// The one way to read bytes: a named source of them, wherever they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "libshard/base/result.h"

namespace moepack {

// Where bytes from another machine came from; none of it is secret.
struct Origin {
  std::string url;        // "https://host/path", "hf://owner/repository@commit/path", "s3://..."
  std::string commit;     // of the repository, 40 digits; "" if there is none
  std::string validator;  // `ETag "abc"`; "" if the commit says more, or there is none
  std::string sha256;     // of the whole file, as published by the server; "" if it is not

  bool operator==(const Origin&) const = default;
};

// Read-only, and safe to use from several threads at once. A local file is an InputFile (file.h).
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // The name used in messages: a path or an address.
  virtual const std::string& name() const = 0;
  virtual uint64_t size() const = 0;
  // Identifies the content without reading it: if two identities are equal, nobody replaced or
  // wrote the source in between. It is compared and recorded, never parsed; what it consists of
  // (device and inode, an ETag, a digest) is up to the implementation.
  virtual const std::string& identity() const = 0;

  // Fills `out` from `offset` on. A source that ends early is kCorrupt, one that cannot be read is
  // kIo; both errors name the source and the offset.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
  // kCorrupt if the source is no longer what was opened.
  virtual Status CheckUnchanged() const = 0;
  // True if every read asks another machine: a few long reads, several at once, are then better
  // than many short ones.
  virtual bool far() const { return false; }
  // No value for sources on this machine.
  virtual std::optional<Origin> origin() const { return std::nullopt; }
  // An open file that holds these bytes at the same offsets, for cloning and mapping. Most sources
  // have one; callers must be able to do without it.
  virtual std::optional<int> descriptor() const { return std::nullopt; }
};

// Bytes per read when reading from front to back: more if each read is a request.
inline constexpr size_t kNearScanStep = 1u << 20, kFarScanStep = 8u << 20;
inline size_t ScanStep(const ByteSource& source) {
  return source.far() ? kFarScanStep : kNearScanStep;
}

using ByteSourcePtr = std::shared_ptr<const ByteSource>;

// Reads a whole small text; more than `limit` bytes is kCorrupt.
Result<std::string> ReadText(const ByteSource& source, uint64_t limit);

// kCorrupt if the server publishes a SHA-256 for the source that differs from `sha256`, the digest
// of its bytes.
Status CheckPublished(const ByteSource& source, const std::string& sha256);

// kCorrupt: `name` is no longer what was opened. The hint says what to do about it.
Error ChangedWhileRead(const std::string& name);
// kCorrupt: only `found` of `wanted` bytes at `offset` exist.
Error EndsEarly(const std::string& name, uint64_t offset, uint64_t wanted, uint64_t found);

}  // namespace moepack
