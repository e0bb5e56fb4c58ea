#include "runtime-shim/refit/row_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libshard/base/files/file.h"
#include "libshard/base/files/temporary_directory.h"
#include "libshard/base/parallel.h"

namespace moepack::runtime {
namespace {

// Rows that a thread moves at a time: fewer take less time than waking threads.
constexpr size_t kRowsMoved = 256;

struct ScratchFile {
  std::filesystem::path path;
  Descriptor file;
};

// The file is unlinked before the first byte is written.
Result<ScratchFile> MakeScratchFile(const std::filesystem::path& directory) {
  std::string name = (directory / "moepack-rows-XXXXXX").string();
  ScratchFile made;
  made.file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  made.path = name;
  if (!made.file.valid()) {
    Error error = IoError(directory, "cannot make a scratch file", errno);
    if (error.hint.empty()) error.hint = "name another directory with --scratch or TMPDIR";
    return error;
  }
  // A killed run leaves no scratch file.
  ::unlink(name.c_str());
  return made;
}

}  // namespace

Result<RowRoom> RowRoom::Of(uint64_t memory, const std::string& scratch) {
  RowRoom room;
  room.memory = memory;
  room.scratch = scratch;
  if (scratch.empty()) {
    SHARD_TRY(room.scratch, TemporaryDirectory());
  }
  return room;
}

Result<RowStore> RowStore::Make(uint64_t count, uint32_t width, RowRoom& room) {
  RowStore store;
  store.count_ = count;
  store.width_ = width;
  const uint64_t bytes = count * width * sizeof(float);
  if (bytes <= room.memory) {
    room.memory -= bytes;
    store.values_.assign(count * width, 0);
    return store;
  }
  SHARD_TRY(ScratchFile made, MakeScratchFile(room.scratch));
  store.path_ = std::move(made.path);
  store.file_ = std::move(made.file);
  if (::ftruncate(store.file_.get(), static_cast<off_t>(bytes)) != 0)
    return IoError(store.path_, "cannot make room in the scratch file", errno);
  room.spilled += bytes;
  return store;
}

Status RowStore::Read(uint64_t first, std::span<float> values) const {
  const uint64_t offset = first * width_;
  if (in_memory()) {
    std::copy_n(values_.begin() + static_cast<ptrdiff_t>(offset), values.size(), values.begin());
    return Ok();
  }
  return moepack::ReadAt(file_.get(), path_, offset * sizeof(float),
                         std::as_writable_bytes(values));
}

Status RowStore::Write(uint64_t first, std::span<const float> values) {
  const uint64_t offset = first * width_;
  if (in_memory()) {
    std::copy(values.begin(), values.end(), values_.begin() + static_cast<ptrdiff_t>(offset));
    return Ok();
  }
  return moepack::WriteAt(file_.get(), path_, offset * sizeof(float), std::as_bytes(values));
}

Status RowStore::Gather(std::span<const uint32_t> rows, std::span<float> values,
                        size_t jobs) const {
  return TryPieces(rows.size(), kRowsMoved, jobs, [&](size_t first, size_t end) -> Status {
    for (size_t i = first; i < end; ++i)
      SHARD_CHECK(Read(rows[i], values.subspan(i * width_, width_)));
    return Ok();
  });
}

Status RowStore::ScatterAdd(std::span<const uint32_t> rows, std::span<const float> values,
                            size_t jobs) {
  return TryPieces(rows.size(), kRowsMoved, jobs, [&](size_t first, size_t end) -> Status {
    std::vector<float> row(width_);
    for (size_t i = first; i < end; ++i) {
      SHARD_CHECK(Read(rows[i], row));
      for (size_t column = 0; column < width_; ++column) row[column] += values[i * width_ + column];
      SHARD_CHECK(Write(rows[i], row));
    }
    return Ok();
  });
}

}  // namespace moepack::runtime
