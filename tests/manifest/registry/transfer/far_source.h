// Remote sources as tests need them: they count, break off, lie and kill.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/byte_source.h"
#include "libshard/base/files/inside_directory.h"
#include "manifest/registry/transfer/fetch_file.h"

namespace moepack::registry {

// Counters that child processes share with the test.
struct ReadCounts {
  std::atomic<uint64_t> bytes{0}, reads{0}, now{0}, most{0};
};

inline std::string BytesFromSeed(uint64_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class FarSource final : public ByteSource {
 public:
  explicit FarSource(std::string bytes) : bytes_(std::move(bytes)) {}

  // Called before a read, which ends with its result, and after it, when `out` is filled.
  std::function<Status(uint64_t offset, uint64_t bytes)> before = {};
  std::function<void(uint64_t offset, std::span<std::byte> out)> after = {};
  // Another process may count too.
  ReadCounts* counts = &own_;

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& identity() const override { return name_; }
  bool far() const override { return true; }
  Status CheckUnchanged() const override { return Ok(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t now = ++counts->now;
    for (uint64_t most = counts->most; most < now;)
      if (counts->most.compare_exchange_weak(most, now)) break;
    Status done = before ? before(offset, out.size()) : Ok();
    if (done) {
      std::memcpy(out.data(), bytes_.data() + offset, out.size());
      counts->bytes += out.size();
      ++counts->reads;
      if (after) after(offset, out);
    }
    --counts->now;
    return done;
  }

  const std::string& bytes() const { return bytes_; }
  StatedContent Stated(uint64_t cell_bytes = 0) const {
    StatedContent stated{"far: blob", Sha256Hex(bytes_), bytes_.size(), {cell_bytes, {}}};
    for (uint64_t at = 0; cell_bytes > 0 && at < bytes_.size(); at += cell_bytes)
      stated.cells.sha256.push_back(Sha256Hex(std::string_view(bytes_).substr(at, cell_bytes)));
    return stated;
  }

 private:
  std::string name_ = "https://far/blob", bytes_;
  ReadCounts own_;
};

inline constexpr uint64_t kTestCell = 4096, kTestPiece = 1024;

// Small cells and pieces, several connections for every file.
inline FetchOptions SmallCells(size_t connections = 3) {
  FetchOptions options;
  options.cell_bytes = kTestCell;
  options.piece_bytes = kTestPiece;
  options.connections = connections;
  options.parallel_from = 0;
  return options;
}

// The number of cells that may be lost when a run is stopped.
inline uint64_t CellsInFlight(const FetchOptions& options) {
  return (options.connections + 1) * options.cell_bytes;
}

inline Error BrokenOff() { return {Code::kUnavailable, "https://far/blob: connection reset"}; }

// Fails every read once that many bytes were requested.
inline std::function<Status(uint64_t, uint64_t)> FailAfter(uint64_t limit) {
  auto asked = std::make_shared<std::atomic<uint64_t>>(0);
  return [asked, limit](uint64_t, uint64_t bytes) -> Status {
    if ((*asked += bytes) > limit) return BrokenOff();
    return Ok();
  };
}

inline std::string TextOf(const InsideDirectory& directory, const std::string& name) {
  const auto text = directory.ReadText(name, uint64_t{1} << 32);
  return text ? *text : text.error().message;
}

// Runs `work` in another process and returns its exit status, or minus the signal that ended it.
inline int InChild(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 255;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Memory that child processes share with the test.
template <class T>
class Shared {
 public:
  Shared()
      : at_(new (mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                      0)) T()) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { munmap(at_, sizeof(T)); }
  T* operator->() const { return at_; }
  T* get() const { return at_; }

 private:
  T* at_;
};

}  // namespace moepack::registry
