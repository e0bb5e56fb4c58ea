#include "manifest/registry/transfer/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "libshard/base/files/file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/transfer/free_space.h"

namespace moepack::registry {
namespace {

constexpr const char* kPartEnding = ".part";
constexpr const char* kSideEnding = ".cells";
constexpr uint64_t kSideFrame = 1024;     // bytes of a side file without its cells
constexpr uint64_t kBytesPerBlock = 512;  // of st_blocks, stat(2)

std::optional<struct stat> StatOf(int fd) {
  struct stat info;
  if (fstat(fd, &info) == 0) return info;
  (void)ErrnoText(errno);  // throws where memory was lacking, which says nothing about the file
  return std::nullopt;
}

}  // namespace

PartFile::PartFile(const InsideDirectory& directory, const std::string& name, CellMap cells)
    : directory_(&directory),
      name_(name),
      part_(name + kPartEnding),
      side_(name + kSideEnding),
      cells_(std::move(cells)) {}

Result<PartFile> PartFile::Open(const InsideDirectory& directory, const std::string& name,
                                CellMap cells,
                                const std::function<void(const std::string&)>& warn) {
  PartFile file(directory, name, std::move(cells));
  SHARD_CHECK(file.OpenPart());
  SHARD_CHECK(file.ReadCells(warn));
  SHARD_CHECK(file.Allocate());
  return file;
}

Status PartFile::OpenPart() {
  SHARD_TRY(fd_, directory_->OpenFile(part_, O_RDWR | O_CREAT));
  const auto info = StatOf(fd_.get());
  if (!info) return IoError(path(), "open", errno);
  if (info->st_nlink <= 1) return Ok();
  // A hard link: writing would also change the file under its other name.
  SHARD_CHECK(Discard());
  SHARD_TRY(fd_, directory_->OpenFile(part_, O_RDWR | O_CREAT | O_EXCL));
  return Ok();
}

// Whatever is wrong with the side file, the file itself can be fetched again.
Status PartFile::ReadCells(const std::function<void(const std::string&)>& warn) {
  const auto info = StatOf(fd_.get());
  if (!info) return IoError(path(), "read", errno);
  const auto text = directory_->ReadText(side_, cells_.count() + kSideFrame);
  if (!text && text.error().code == Code::kNotFound) return Ok();
  const std::string where = (directory_->path() / side_).string();
  Status read = text ? cells_.Read(where, *text) : Status(text.error());
  if (read && static_cast<uint64_t>(info->st_size) != cells_.size()) {
    read = Error{Code::kCorrupt, Cat(path().string(), ": size: expected ", cells_.size(),
                                     " bytes, found ", info->st_size)};
  }
  if (read) return Ok();
  if (warn) warn(Cat(read.error().message, "; what is there is discarded and fetched again"));
  for (uint64_t cell = 0; cell < cells_.count(); ++cell) cells_.Set(cell, false);
  SHARD_CHECK(Discard());
  SHARD_TRY(fd_, directory_->OpenFile(part_, O_RDWR | O_CREAT));
  return Ok();
}

// Allocates all the room at once, so that a full disk is noticed now and not at the end. If the
// file system does not support this call, posix_fallocate would write every block, so only the size
// is set.
Status PartFile::Allocate() {
  const auto info = StatOf(fd_.get());
  if (!info) return IoError(path(), "open", errno);
  const auto size = static_cast<off_t>(cells_.size());
  if (info->st_size > size && ftruncate(fd_.get(), size) != 0)
    return IoError(path(), "truncate", errno);
  while (size > 0 && fallocate(fd_.get(), 0, 0, size) != 0) {
    const int error = errno;
    SHARD_CHECK(CheckInterrupt());
    if (error == EINTR) continue;
    if (error == ENOSPC || error == EDQUOT)
      return NoRoom(static_cast<uint64_t>(std::min<off_t>(info->st_size, size)));
    if (error != EOPNOTSUPP && error != ENOSYS) return IoError(path(), "take room", error);
    break;
  }
  if (ftruncate(fd_.get(), size) != 0) return IoError(path(), "set the size", errno);
  return Ok();
}

// What was allocated before the disk was full is given back; what an earlier run fetched stays.
Status PartFile::NoRoom(uint64_t size_before) {
  if (ftruncate(fd_.get(), static_cast<off_t>(size_before)) != 0)
    return IoError(path(), "truncate", errno);
  const uint64_t there = AllocatedBytes(*directory_, name_);
  const uint64_t needed = cells_.size() - std::min(there, cells_.size());
  const fs::path place = path();
  if (size_before == 0) SHARD_CHECK(Discard());
  SHARD_TRY(const uint64_t free, FreeBytes(place));
  return NotEnoughSpace(place, needed, free, there);
}

bool PartFile::IsOurs(const std::string& name) const {
  const auto named = directory_->OpenFile(name, O_RDONLY);
  const auto by_name = named ? StatOf(named->get()) : std::nullopt;
  const auto open = StatOf(fd_.get());
  return by_name && open && by_name->st_ino == open->st_ino && by_name->st_dev == open->st_dev;
}

Error PartFile::Lost() const {
  return {Code::kIo,
          Cat(path().string(), ": expected the file that this run writes, found another or none"),
          "something else removed or replaced it: run the command again"};
}

Status PartFile::Write(uint64_t offset, std::span<const std::byte> bytes) const {
  if (!IsOurs()) return Lost();
  SHARD_CHECK(WriteAt(fd_.get(), path(), offset, bytes));
  // Only a hint, so that little is left for the flush of a complete cell.
  (void)sync_file_range(fd_.get(), static_cast<off64_t>(offset), static_cast<off64_t>(bytes.size()),
                        SYNC_FILE_RANGE_WRITE);
  return Ok();
}

Status PartFile::Read(uint64_t offset, std::span<std::byte> out) const {
  return ReadAt(fd_.get(), path(), offset, out);
}

Status PartFile::Keep(const std::vector<uint64_t>& cells) {
  if (!has_side_file()) return Ok();
  if (fdatasync(fd_.get()) != 0) return IoError(path(), "flush to disk", errno);
  if (!IsOurs()) return Lost();
  for (const uint64_t cell : cells) cells_.Set(cell, true);
  return directory_->WriteText(side_, cells_.Text());
}

Status PartFile::Forget(const std::vector<uint64_t>& cells) {
  for (const uint64_t cell : cells) cells_.Set(cell, false);
  return has_side_file() ? directory_->WriteText(side_, cells_.Text()) : Ok();
}

Status PartFile::Publish() {
  SHARD_CHECK(FlushToDisk(fd_.get(), path()));
  if (!IsOurs()) return Lost();
  SHARD_CHECK(directory_->Move(part_, *directory_, name_, true));
  if (!IsOurs(name_)) {  // swapped since the last check: nobody has verified what was renamed
    SHARD_CHECK(directory_->Remove(name_));
    return Lost();
  }
  return directory_->Remove(side_);
}

Status PartFile::Discard() {
  SHARD_CHECK(directory_->Remove(side_));
  return directory_->Remove(part_);
}

uint64_t AllocatedBytes(const InsideDirectory& directory, const std::string& name) {
  const auto file = directory.OpenFile(name + kPartEnding, O_RDONLY);
  const auto info = file ? StatOf(file->get()) : std::nullopt;
  return info ? static_cast<uint64_t>(info->st_blocks) * kBytesPerBlock : 0;
}

}  // namespace moepack::registry
