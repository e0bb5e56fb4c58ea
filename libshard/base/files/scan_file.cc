#include "libshard/base/files/scan_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

PageBuffer::PageBuffer(size_t bytes) : size_(AlignUp(std::max<size_t>(bytes, 1), kPage)) {
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, size_)));
  if (data_ == nullptr) throw std::bad_alloc();
}

void PageBuffer::Free::operator()(std::byte* data) const { std::free(data); }

ScanFile::ScanFile(const ByteSource& source, bool cold) : source_(source), cold_(cold) {
  const std::optional<int> fd = source.descriptor();
  if (!fd) return;
  if (cold) {
    // Only clean pages can be dropped. Neither call can be relied on, and neither is: direct reads
    // ask the device whatever the cache has.
    (void)fdatasync(*fd);
    (void)posix_fadvise(*fd, 0, 0, POSIX_FADV_DONTNEED);
  }
  // The same file once more, whatever stands under its name by now.
  const std::string same = Cat("/proc/self/fd/", *fd);
  direct_ = Descriptor(open(same.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
}

// Bytes that the page cache had, without waiting for the disk.
size_t ScanFile::ReadCached(uint64_t offset, std::span<std::byte> out) const {
  const std::optional<int> fd = source_.descriptor();
  if (!fd) return 0;
  const iovec target = {out.data(), out.size()};
  const ssize_t got = preadv2(*fd, &target, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return got < 0 ? 0 : static_cast<size_t>(got);
}

// Bytes that came around the page cache; 0 when this file system or place cannot do it.
size_t ScanFile::ReadDirect(uint64_t offset, std::span<std::byte> out) const {
  if (!direct_.valid()) return 0;
  const ssize_t got = pread(direct_.get(), out.data(), out.size(), static_cast<off_t>(offset));
  return got < 0 ? 0 : static_cast<size_t>(got);
}

Status ScanFile::Read(uint64_t offset, size_t wanted, PageBuffer& buffer) {
  const std::span<std::byte> whole = buffer.bytes();
  size_t done = cold_ ? 0 : ReadCached(offset, whole.first(wanted));
  if (done < wanted) {
    // Direct reads start and end on pages; the buffer has room for the rest of the last one.
    const size_t from = done / kPage * kPage;
    const size_t size = AlignUp(wanted - from, kPage);
    const size_t direct = ReadDirect(offset + from, whole.subspan(from, size));
    direct_bytes_ += std::min(direct, wanted - from);
    done = std::max(done, from + direct);
  }
  if (done >= wanted) return Ok();
  return source_.ReadAt(offset + done, whole.subspan(done, wanted - done));
}

Result<std::string> Sha256Of(const ByteSource& source,
                             const std::function<void(uint64_t bytes)>& read) {
  const size_t step = ScanStep(source);
  Sha256 hash;
  std::vector<std::byte> buffer(std::min<uint64_t>(step, source.size()));
  for (uint64_t at = 0; at < source.size(); at += step) {
    SHARD_CHECK(CheckInterrupt());
    const auto piece = std::span(buffer).first(std::min<uint64_t>(step, source.size() - at));
    SHARD_CHECK(source.ReadAt(at, piece));
    hash.Update(piece);
    if (read) read(piece.size());
  }
  return hash.Finish();
}

}  // namespace moepack
