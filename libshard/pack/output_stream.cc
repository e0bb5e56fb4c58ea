#include "libshard/pack/output_stream.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// The blocks of file systems that can share them. Where they are larger, the call to share fails
// and the bytes are written.
constexpr uint64_t kBlock = 4096;
// The kernel is asked to start writing back after this many bytes, while later ones are still read
// and hashed, so that little is left for the final flush.
constexpr uint64_t kWritebackStep = 16u << 20;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Result<OutputStream> OutputStream::Open(const OutputFile& layout, size_t index,
                                        const InsideDirectory& directory, Journal& journal) {
  OutputStream stream(layout, index, directory.path() / layout.path, &journal);
  // Without O_TRUNC: Resume reads what an earlier run wrote.
  SHARD_TRY(stream.fd_, directory.OpenFile(layout.path, O_RDWR | O_CREAT));
  struct stat info;
  if (fstat(stream.fd_.get(), &info) != 0) return IoError(stream.path_, "create", errno);
  // A hard link: writing would also change the file under its other name.
  if (info.st_nlink > 1) {
    SHARD_CHECK(directory.Remove(layout.path));
    SHARD_TRY(stream.fd_, directory.OpenFile(layout.path, O_RDWR | O_CREAT | O_EXCL));
  }
  return stream;
}

Status OutputStream::Resume(std::span<std::byte> buffer, uint64_t cell_bytes) {
  cell_bytes_ = layout_.size > cell_bytes ? cell_bytes : 0;
  sha256_ = CellSha256(cell_bytes_);
  if (journal_ == nullptr) return StartOver();
  const std::vector<std::vector<std::string>>& finished = journal_->finished();
  if (index_ < finished.size() && !finished[index_].empty() &&
      finished[index_].size() <= layout_.tensors.size()) {
    SHARD_TRY(resumed_, ReadBack(finished[index_], buffer));
    if (resumed_) return Ok();
  }
  return StartOver();
}

// Returns true when the header and the tensors on disk are those of the journal. The stream then
// continues after them, with its hashes in the same state as if it had just written them.
Result<bool> OutputStream::ReadBack(const std::vector<std::string>& expected,
                                    std::span<std::byte> buffer) {
  struct stat info;
  if (fstat(fd_.get(), &info) != 0) return IoError(path_, "read", errno);
  const TensorEntry& last = layout_.tensors[expected.size() - 1].entry;
  const uint64_t end = last.offset + last.bytes;
  if (static_cast<uint64_t>(info.st_size) < end) return false;
  std::string prefix(layout_.prefix.size(), '\0');
  SHARD_CHECK(ReadAt(fd_.get(), path_, 0, std::as_writable_bytes(std::span(prefix))));
  if (prefix != layout_.prefix) return false;
  sha256_.Update(BytesOf(prefix));
  position_ = prefix.size();
  // The journal has these tensors already. Padding is written again, so it need not be compared.
  SHARD_CHECK(FinishTensors(false));
  while (position_ < end) {
    const TensorEntry& tensor = layout_.tensors[digests_.size()].entry;
    const uint64_t left = tensor.bytes - tensor_bytes_;
    const auto piece = buffer.first(std::min<uint64_t>(buffer.size(), left));
    SHARD_CHECK(ReadAt(fd_.get(), path_, position_, piece));
    SHARD_CHECK(Hash(piece, false));
  }
  // Empty tensors after the last listed one were closed together with it, without a line in the
  // journal.
  digests_.Truncate(expected.size());
  flushed_ = position_;
  if (digests_.size() != expected.size()) return false;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (digests_[i] != expected[i]) return false;
  }
  // At the end of the file no later bytes would close them.
  SHARD_CHECK(FinishTensors(true));
  return true;
}

Status OutputStream::StartOver() {
  sha256_ = CellSha256(cell_bytes_);
  xxh3_.Reset();
  digests_ = {};
  position_ = tensor_bytes_ = flushed_ = 0;
  if (fd_.valid() && ftruncate(fd_.get(), 0) != 0) {
    return IoError(path_, "truncate", errno);
  }
  SHARD_CHECK(Write(0, BytesOf(layout_.prefix)));
  sha256_.Update(BytesOf(layout_.prefix));
  position_ = layout_.prefix.size();
  return FinishTensors(true);
}

Status OutputStream::Append(std::span<const std::byte> bytes) {
  SHARD_CHECK(Write(position_, bytes));
  return Take(bytes);
}

Status OutputStream::AppendCopy(const ByteSource& source, uint64_t offset,
                                std::span<const std::byte> bytes) {
  SHARD_CHECK(WriteOrShare(source, offset, bytes));
  return Take(bytes);
}

// Hashes bytes that have just been written. The journal lists a tensor only after its write, and
// Resume reads it back, because a crash may keep the line but lose the bytes.
Status OutputStream::Take(std::span<const std::byte> bytes) {
  SHARD_CHECK(Hash(bytes, true));
  StartWriteback();
  return Ok();
}

Status OutputStream::Write(uint64_t position, std::span<const std::byte> bytes) {
  return fd_.valid() ? WriteAt(fd_.get(), path_, position, bytes) : Ok();
}

Status OutputStream::WriteOrShare(const ByteSource& source, uint64_t offset,
                                  std::span<const std::byte> bytes) {
  // FICLONERANGE (ioctl_ficlonerange(2)) shares whole blocks only, and both files must have them at
  // the same offset modulo the block size. The bytes before the first and after the last whole
  // block are written.
  const uint64_t head = std::min<uint64_t>(AlignUp(position_, kBlock) - position_, bytes.size());
  const uint64_t middle = (bytes.size() - head) / kBlock * kBlock;
  const std::optional<int> from = source.descriptor();
  const bool shareable =
      fd_.valid() && from && can_share_ && middle > 0 && offset % kBlock == position_ % kBlock;
  if (shareable) {
    file_clone_range range{};
    range.src_fd = *from;
    range.src_offset = offset + head;
    range.src_length = middle;
    range.dest_offset = position_ + head;
    can_share_ = ioctl(fd_.get(), FICLONERANGE, &range) == 0;
  }
  if (!shareable || !can_share_) return Write(position_, bytes);
  const uint64_t tail = head + middle;
  SHARD_CHECK(Write(position_, bytes.first(head)));
  return Write(position_ + tail, bytes.subspan(tail));
}

void OutputStream::StartWriteback() {
  if (!fd_.valid() || position_ - flushed_ < kWritebackStep) return;
  // This is only a hint. If it fails, the flush in Finish does the work.
  (void)sync_file_range(fd_.get(), static_cast<off64_t>(flushed_),
                        static_cast<off64_t>(position_ - flushed_), SYNC_FILE_RANGE_WRITE);
  flushed_ = position_;
}

Status OutputStream::FinishTensor(bool note) {
  digests_.Add(xxh3_.Hex());
  xxh3_.Reset();
  tensor_bytes_ = 0;
  return note && journal_ != nullptr
             ? journal_->Add(index_, digests_.size() - 1, digests_[digests_.size() - 1])
             : Ok();
}

// Writes zeros from the end of a tensor up to the next one, or to the end of the file.
Status OutputStream::Pad() {
  const size_t next = digests_.size();
  const uint64_t end =
      next < layout_.tensors.size() ? layout_.tensors[next].entry.offset : layout_.size;
  if (end <= position_) return Ok();
  const std::vector<std::byte> zeros(end - position_);
  SHARD_CHECK(Write(position_, zeros));
  sha256_.Update(zeros);
  position_ = end;
  return Ok();
}

// Closes the current tensor if all its bytes are there, and with it any empty tensors that follow.
Status OutputStream::FinishTensors(bool note) {
  while (digests_.size() < layout_.tensors.size() &&
         layout_.tensors[digests_.size()].entry.bytes == tensor_bytes_) {
    SHARD_CHECK(FinishTensor(note));
    SHARD_CHECK(Pad());
  }
  return Ok();
}

Status OutputStream::Hash(std::span<const std::byte> bytes, bool note) {
  sha256_.Update(bytes);
  position_ += bytes.size();
  while (!bytes.empty()) {
    if (digests_.size() == layout_.tensors.size())
      return Error{Code::kMismatch, Cat(path_.string(), ": expected ", layout_.size,
                                        " bytes, found at least ", position_)};
    const uint64_t left = layout_.tensors[digests_.size()].entry.bytes - tensor_bytes_;
    const auto piece = bytes.first(std::min<uint64_t>(left, bytes.size()));
    xxh3_.Update(piece);
    tensor_bytes_ += piece.size();
    bytes = bytes.subspan(piece.size());
    SHARD_CHECK(FinishTensors(note));
  }
  return Ok();
}

FileDigests OutputStream::Digests() {
  std::string sha256 = sha256_.Finish();
  return {std::move(sha256), std::move(digests_), sha256_.TakeCells()};
}

Result<FileDigests> OutputStream::Finish() {
  if (position_ != layout_.size || digests_.size() != layout_.tensors.size()) {
    return Error{Code::kMismatch, Cat(path_.string(), ": expected ", layout_.size,
                                      " bytes written, found ", position_)};
  }
  if (!fd_.valid()) return Digests();
  // A file that was resumed may be longer than its layout.
  if (ftruncate(fd_.get(), static_cast<off_t>(layout_.size)) != 0) {
    return IoError(path_, "truncate", errno);
  }
  SHARD_CHECK(FlushToDisk(fd_.get(), path_));
  return Digests();
}

}  // namespace moepack
