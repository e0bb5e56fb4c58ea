#include "libshard/base/files/scan_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/parallel.h"

namespace moepack {
namespace {

constexpr size_t kChunk = 64u << 10;

std::string PutScanned(const fs::path& path, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 2654435761u) >> 13);
  std::ofstream(path, std::ios::binary) << text;
  return text;
}

std::string Scan(const fs::path& path, size_t bytes) {
  const InputFile source = InputFile::Open(path).value();
  ScanFile file(source);
  PageBuffer buffer(kChunk);
  std::string text;
  for (size_t offset = 0; offset < bytes; offset += kChunk) {
    const size_t wanted = std::min(kChunk, bytes - offset);
    const Status read = file.Read(offset, wanted, buffer);
    EXPECT_TRUE(read) << read.error().message;
    text.append(reinterpret_cast<const char*>(buffer.bytes().data()), wanted);
  }
  return text;
}

// Lengths around pages and chunks, from the cache, from the disk, and from both.
TEST(ScanFile, ReadsTheSameBytesFromCacheAndDisk) {
  for (const char* folder : {"/tmp", "/dev/shm", MOEPACK_SOURCE_DIR "/build"}) {
    if (access(folder, W_OK) != 0) continue;
    const fs::path path = fs::path(folder) / ("scan-file-test-" + std::to_string(getpid()));
    for (const size_t bytes : {1u, 4095u, 4096u, 4097u, 65536u, 65537u, 300'001u}) {
      const std::string text = PutScanned(path, bytes);
      EXPECT_TRUE(Scan(path, bytes) == text) << folder << " cached " << bytes;
      const int fd = open(path.c_str(), O_RDONLY);
      ASSERT_EQ(fsync(fd), 0);
      EXPECT_EQ(posix_fadvise(fd, 0, 100'000, POSIX_FADV_DONTNEED), 0);
      EXPECT_TRUE(Scan(path, bytes) == text) << folder << " partly cached " << bytes;
      EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
      close(fd);
      EXPECT_TRUE(Scan(path, bytes) == text) << folder << " from the disk " << bytes;
    }
    fs::remove(path);
  }
}

TEST(ScanFile, AReadPastTheEndIsCorrupt) {
  const fixtures::TempDir dir;
  PutScanned(dir / "f", 5000);
  const InputFile source = InputFile::Open(dir / "f").value();
  ScanFile file(source);
  PageBuffer buffer(kChunk);
  const Status read = file.Read(4096, 1000, buffer);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kCorrupt);
}

TEST(ScanFile, ReadsASourceThatIsNotAFile) {
  const MemorySource source("memory", std::string(5000, 'x'));
  ScanFile file(source);
  PageBuffer buffer(kChunk);
  ASSERT_TRUE(file.Read(4096, 904, buffer));
  EXPECT_EQ(buffer.bytes()[903], std::byte{'x'});
  EXPECT_EQ(file.direct_bytes(), 0u);
  EXPECT_EQ(*Sha256Of(source), Sha256Hex(std::string(5000, 'x')));
}

// Bytes that differ from piece to piece, and a piece at `bad` that cannot be read.
class LongSource : public ByteSource {
 public:
  explicit LongSource(uint64_t bytes, uint64_t bad = UINT64_MAX) : bytes_(bytes, 0), bad_(bad) {
    for (size_t i = 0; i < bytes; ++i) bytes_[i] = static_cast<char>((i * 2654435761u) >> 13);
  }
  const std::string& bytes() const { return bytes_; }
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& identity() const override { return name_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset == bad_) return Error{Code::kIo, "long: read: the disk fails"};
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return Ok();
  }
  Status CheckUnchanged() const override { return Ok(); }

 private:
  std::string name_ = "long", bytes_;
  uint64_t bad_;
};

TEST(Sha256Of, IsTheSameWithAndWithoutReadAhead) {
  for (const uint64_t bytes : {0u, 1u, 8u << 20, (8u << 20) + 1, (13u << 20) + 12345}) {
    const LongSource source(bytes);
    uint64_t told = 0;
    const auto sha256 = Sha256Of(source, [&](uint64_t step) { told += step; });
    ASSERT_TRUE(sha256) << sha256.error().message;
    EXPECT_EQ(*sha256, Sha256Hex(source.bytes())) << bytes;
    EXPECT_EQ(told, bytes);
  }
}

TEST(Sha256Of, StopsAtAReadError) {
  for (const uint64_t bad : {0u, 3u << 20, 9u << 20}) {
    const auto sha256 = Sha256Of(LongSource((9u << 20) + 5, bad));
    ASSERT_FALSE(sha256) << bad;
    EXPECT_EQ(sha256.error().message, "long: read: the disk fails");
  }
}

TEST(Sha256Of, StopsAtAnInterruptDuringReadAhead) {
  const LongSource source(9u << 20);
  InterruptRequested() = true;
  const auto sha256 = Sha256Of(source);
  InterruptRequested() = false;
  ASSERT_FALSE(sha256);
  EXPECT_EQ(sha256.error().code, Code::kInterrupted);
}

TEST(PageBuffer, StartsOnAPageAndHoldsWholePages) {
  PageBuffer buffer(5000);
  EXPECT_EQ(buffer.bytes().size(), 8192u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.bytes().data()) % 4096, 0u);
}

}  // namespace
}  // namespace moepack
