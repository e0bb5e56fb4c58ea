// The bytes of a blob on their way to a registry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/byte_source.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"
#include "manifest/registry/artifact/oci_manifest.h"

namespace moepack::registry {

// Hashes what it returns, once and from front to back, and returns the last bytes only if all of
// them match the digest: without them a registry accepts nothing. Borrows the source; for one
// thread.
class UploadBody {
 public:
  // `read` is called with how many bytes were read for the first time; it may be empty.
  UploadBody(const ByteSource& source, const BlobRecord& blob, PieceDone read)
      : source_(source), blob_(blob), read_(std::move(read)) {}

  uint64_t size() const { return blob_.size; }
  const BlobRecord& blob() const { return blob_; }
  // kMismatch for a source of another size. Everything is hashed again from here on.
  Status Restart();
  // Fills `out` from `offset` on, also with bytes that were read before; any bytes in between are
  // hashed first. kMismatch if the source has other bytes.
  Status Read(uint64_t offset, std::span<std::byte> out);
  // `size` bytes from `offset` on as the body of a request. Borrows this.
  remote::HttpBody Part(uint64_t offset, uint64_t size);

 private:
  Status ReadSource(uint64_t offset, std::span<std::byte> out);
  Status Hash(std::span<const std::byte> bytes);
  Status Compare();

  const ByteSource& source_;
  const BlobRecord& blob_;
  PieceDone read_;
  Sha256 sha256_;
  uint64_t hashed_ = 0;  // bytes
  uint64_t told_ = 0;    // the most of them so far
  struct {
    uint64_t offset = 0;
    std::vector<std::byte> bytes;
  } ahead_;  // for a far source, where few long reads are better than many
};

}  // namespace moepack::registry
