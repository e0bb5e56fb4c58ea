// Reads a file once from front to back, to hash or compare it. Bytes in the page cache are taken
// from there; the rest comes straight from the disk. That saves a copy of every byte, and scanning
// a large distribution does not evict what the machine is working with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"

namespace moepack {

// Offsets and lengths of direct reads are multiples of this.
inline constexpr size_t kScanPage = 4096;

// Memory that starts on a page boundary, as direct reads need; its size is rounded up to whole
// pages.
class PageBuffer {
 public:
  explicit PageBuffer(size_t bytes);
  std::span<std::byte> bytes() { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_;
};

// Move-only, for one thread. Borrows the source; a source without a descriptor is simply read.
class ScanFile {
 public:
  // `cold`: cached pages are written to the device and dropped, and reads bypass the cache. If the
  // file system has no direct reads, dropping is all that can be done. Caches below the file system
  // (of a disk, a host, a server) are out of reach.
  explicit ScanFile(const ByteSource& source, bool cold = false);

  // Fills the first `wanted` bytes of `buffer` from `offset`, with the errors of
  // ByteSource::ReadAt. REQUIRES: `offset` is a multiple of kScanPage, `wanted` fits in the buffer.
  Status Read(uint64_t offset, size_t wanted, PageBuffer& buffer);
  // The number of bytes that were read past the page cache.
  uint64_t direct_bytes() const { return direct_bytes_; }

 private:
  size_t ReadCached(uint64_t offset, std::span<std::byte> out) const;
  size_t ReadDirect(uint64_t offset, std::span<std::byte> out) const;

  const ByteSource& source_;
  bool cold_;
  uint64_t direct_bytes_ = 0;
  Descriptor direct_;  // not valid if there are no direct reads
};

// SHA-256 of a whole source, read once from front to back; stops at an interrupt. `read`, if not
// empty, is called with the number of bytes of each step.
Result<std::string> Sha256Of(const ByteSource& source, const PieceDone& read = {});

}  // namespace moepack
