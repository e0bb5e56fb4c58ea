#include "libshard/base/scan_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/parallel.h"

namespace shard {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

PageBuffer::PageBuffer(size_t bytes) : size_(AlignUp(std::max<size_t>(bytes, 1), kPage)) {
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, size_)));
  if (data_ == nullptr) throw std::bad_alloc();
}

void PageBuffer::Free::operator()(std::byte* data) const { std::free(data); }

Result<ScanFile> ScanFile::Open(const fs::path& path, bool cold) {
  SHARD_TRY(InputFile file, InputFile::Open(path));
  ScanFile scan(std::move(file));
  scan.cold_ = cold;
  if (cold) {
    // Only clean pages can be dropped. Neither call can be relied on, and neither is: direct reads
    // ask the device whatever the cache has.
    (void)fdatasync(scan.file_.descriptor());
    (void)posix_fadvise(scan.file_.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }
  scan.direct_fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  return scan;
}

ScanFile::ScanFile(ScanFile&& other) noexcept
    : file_(std::move(other.file_)),
      cold_(other.cold_),
      direct_bytes_(other.direct_bytes_),
      direct_fd_(std::exchange(other.direct_fd_, -1)) {}

ScanFile::~ScanFile() {
  if (direct_fd_ >= 0) close(direct_fd_);
}

// Bytes that the page cache had, without waiting for the disk.
size_t ScanFile::ReadCached(uint64_t offset, std::span<std::byte> out) const {
  const iovec target = {out.data(), out.size()};
  const ssize_t got =
      preadv2(file_.descriptor(), &target, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return got < 0 ? 0 : static_cast<size_t>(got);
}

// Bytes that came around the page cache; 0 when this file system or place cannot do it.
size_t ScanFile::ReadDirect(uint64_t offset, std::span<std::byte> out) const {
  if (direct_fd_ < 0) return 0;
  const ssize_t got = pread(direct_fd_, out.data(), out.size(), static_cast<off_t>(offset));
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
  return file_.ReadAt(offset + done, whole.subspan(done, wanted - done));
}

Result<std::string> Sha256OfFile(const fs::path& path,
                                 const std::function<void(uint64_t bytes)>& read) {
  constexpr size_t kBuffer = 1u << 20;
  SHARD_TRY(const InputFile file, InputFile::Open(path));
  Sha256 hash;
  std::vector<std::byte> buffer(kBuffer);
  for (uint64_t at = 0; at < file.size(); at += kBuffer) {
    SHARD_CHECK(CheckInterrupt());
    const auto piece = std::span(buffer).first(std::min<uint64_t>(kBuffer, file.size() - at));
    SHARD_CHECK(file.ReadAt(at, piece));
    hash.Update(piece);
    if (read) read(piece.size());
  }
  return hash.Finish();
}

}  // namespace shard
