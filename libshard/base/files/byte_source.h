// The one way to bytes that are read: a run of them with a name, wherever it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "libshard/base/result.h"

namespace moepack {

// Where bytes of another machine came from; nothing of it is secret.
struct Origin {
  std::string url;        // "https://host/path", "hf://owner/repository@commit/path", "s3://..."
  std::string commit;     // of the repository, 40 digits; "" where there is none
  std::string validator;  // `ETag "abc"`; "" where the commit says more, or there is none
  std::string sha256;     // of the whole file, as the server publishes it; "" where it does not

  bool operator==(const Origin&) const = default;
};

// Read-only; used by several threads at once. A local file is an InputFile (file.h).
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // What messages call it: a path or an address.
  virtual const std::string& name() const = 0;
  virtual uint64_t size() const = 0;
  // Tells its content from any other without reading it: where two are equal, nobody replaced or
  // wrote the source in between. It is compared and recorded, never taken apart; what it is made
  // of (device and inode, an ETag, a digest) is the implementation's business.
  virtual const std::string& identity() const = 0;

  // Fills `out` from `offset` on. A source that ends before is kCorrupt, one that cannot be read is
  // kIo; both name it and the offset.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
  // kCorrupt if it is no longer what was opened.
  virtual Status CheckUnchanged() const = 0;
  // Every read asks another machine: few long ones, several at once, are better than many.
  virtual bool far() const { return false; }
  // None for what lies on this machine.
  virtual std::optional<Origin> origin() const { return std::nullopt; }
  // An open file that holds these bytes at the same offsets, for cloning and mapping. Most sources
  // have one; whoever asks for it can do without.
  virtual std::optional<int> descriptor() const { return std::nullopt; }
};

// Bytes that a reader from front to back takes at once: longer where each read is a request.
inline constexpr size_t kNearScanStep = 1u << 20, kFarScanStep = 8u << 20;
inline size_t ScanStep(const ByteSource& source) {
  return source.far() ? kFarScanStep : kNearScanStep;
}

using ByteSourcePtr = std::shared_ptr<const ByteSource>;

// Reads a small text whole; more than `limit` bytes is kCorrupt.
Result<std::string> ReadText(const ByteSource& source, uint64_t limit);

// kCorrupt when the server publishes another SHA-256 for the source than `sha256`, that of its
// bytes.
Status CheckPublished(const ByteSource& source, const std::string& sha256);

// kCorrupt: `name` is no longer what was opened, and what to do about it.
Error ChangedWhileRead(const std::string& name);
// kCorrupt: of `wanted` bytes at `offset` only `found` are there.
Error EndsEarly(const std::string& name, uint64_t offset, uint64_t wanted, uint64_t found);

}  // namespace moepack
