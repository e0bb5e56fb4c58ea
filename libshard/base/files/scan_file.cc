#include "libshard/base/files/scan_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// A smaller file is hashed before another thread would have begun to read it.
constexpr uint64_t kWorthAThread = 8u << 20;

// Reads a source from front to back in a thread of its own. SHA-256 takes longer than the disk, and
// copying out of the page cache would add to that.
class ReadAhead {
 public:
  // Throws std::system_error if no more threads can be started.
  ReadAhead(const ByteSource& source, size_t step) : source_(source) {
    for (Piece& piece : pieces_) piece.bytes.resize(step);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      if (exception_.Catch([&] { Run(stop); })) return;
      const std::lock_guard lock(mutex_);
      threw_ = true;
      changed_.notify_all();
    });
  }

  // Passes the next piece to `take`. REQUIRES: there is one.
  template <class Take>
  Status Next(const Take& take) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return read_ > taken_ || threw_; });
    if (threw_) {
      thread_.join();
      exception_.Rethrow();
    }
    Piece& piece = pieces_[taken_ % pieces_.size()];
    if (!piece.status) return std::move(piece.status).error();
    lock.unlock();  // the thread does not touch pieces that are not taken
    take(std::span<const std::byte>(piece.bytes).first(piece.size));
    lock.lock();
    ++taken_;
    changed_.notify_all();
    return Ok();
  }

 private:
  struct Piece {
    std::vector<std::byte> bytes;
    size_t size = 0;
    Status status = Ok();
  };

  void Run(const std::stop_token& stop) {
    for (uint64_t at = 0; at < source_.size();) {
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return read_ < taken_ + pieces_.size(); })) return;
      }
      Piece& piece = pieces_[read_ % pieces_.size()];
      piece.size = std::min<uint64_t>(piece.bytes.size(), source_.size() - at);
      piece.status = source_.ReadAt(at, std::span(piece.bytes).first(piece.size));
      at += piece.size;
      const std::lock_guard lock(mutex_);
      ++read_;
      changed_.notify_all();
      if (!piece.status) return;
    }
  }

  const ByteSource& source_;
  std::array<Piece, 4> pieces_;
  uint64_t read_ = 0, taken_ = 0;  // pieces; only the thread changes `read_`
  bool threw_ = false;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  FirstException exception_;
  std::jthread thread_;  // the last member: it stops before the others are destroyed
};

// Null if a thread is not worth it, or none can be started. Sources on another machine have large
// steps and make requests ahead themselves.
std::unique_ptr<ReadAhead> StartReading(const ByteSource& source, size_t step) {
  if (source.size() < kWorthAThread || source.far()) return nullptr;
  try {
    return std::make_unique<ReadAhead>(source, step);
  } catch (const std::system_error&) {
    return nullptr;
  }
}

}  // namespace

PageBuffer::PageBuffer(size_t bytes) : size_(AlignUp(std::max<size_t>(bytes, 1), kScanPage)) {
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kScanPage, size_)));
  if (data_ == nullptr) throw std::bad_alloc();
}

void PageBuffer::Free::operator()(std::byte* data) const { std::free(data); }

ScanFile::ScanFile(const ByteSource& source, bool cold) : source_(source), cold_(cold) {
  const std::optional<int> fd = source.descriptor();
  if (!fd) return;
  if (cold) {
    // Only clean pages can be dropped. Neither call is reliable, and nothing relies on them: direct
    // reads ask the device whatever is in the cache.
    (void)fdatasync(*fd);
    (void)posix_fadvise(*fd, 0, 0, POSIX_FADV_DONTNEED);
  }
  // Opens the same file again, whatever its name refers to by now.
  const std::string same = Cat("/proc/self/fd/", *fd);
  direct_ = Descriptor(open(same.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
}

// Returns how many bytes the page cache had, without waiting for the disk.
size_t ScanFile::ReadCached(uint64_t offset, std::span<std::byte> out) const {
  const std::optional<int> fd = source_.descriptor();
  if (!fd) return 0;
  const iovec target = {out.data(), out.size()};
  const ssize_t got = preadv2(*fd, &target, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return got < 0 ? 0 : static_cast<size_t>(got);
}

// Returns how many bytes were read past the page cache; 0 if this file system or offset does not
// allow it.
size_t ScanFile::ReadDirect(uint64_t offset, std::span<std::byte> out) const {
  if (!direct_.valid()) return 0;
  const ssize_t got = pread(direct_.get(), out.data(), out.size(), static_cast<off_t>(offset));
  return got < 0 ? 0 : static_cast<size_t>(got);
}

Status ScanFile::Read(uint64_t offset, size_t wanted, PageBuffer& buffer) {
  const std::span<std::byte> whole = buffer.bytes();
  size_t done = cold_ ? 0 : ReadCached(offset, whole.first(wanted));
  if (done < wanted) {
    // Direct reads start and end at page boundaries; the buffer has room for the rest of the last
    // page.
    const size_t from = done / kScanPage * kScanPage;
    const size_t size = AlignUp(wanted - from, kScanPage);
    const size_t direct = ReadDirect(offset + from, whole.subspan(from, size));
    direct_bytes_ += std::min(direct, wanted - from);
    done = std::max(done, from + direct);
  }
  if (done >= wanted) return Ok();
  return source_.ReadAt(offset + done, whole.subspan(done, wanted - done));
}

Result<std::string> Sha256Of(const ByteSource& source, const PieceDone& read) {
  const size_t step = ScanStep(source);
  Sha256 hash;
  const auto take = [&](std::span<const std::byte> piece) {
    hash.Update(piece);
    if (read) read(piece.size());
  };
  const std::unique_ptr<ReadAhead> ahead = StartReading(source, step);
  std::vector<std::byte> buffer(ahead ? 0 : std::min<uint64_t>(step, source.size()));
  for (uint64_t at = 0; at < source.size(); at += step) {
    SHARD_CHECK(CheckInterrupt());
    if (ahead) {
      SHARD_CHECK(ahead->Next(take));
      continue;
    }
    const auto piece = std::span(buffer).first(std::min<uint64_t>(step, source.size() - at));
    SHARD_CHECK(source.ReadAt(at, piece));
    take(piece);
  }
  return hash.Finish();
}

}  // namespace moepack
