// --cache: fetched ranges are kept in a directory and not fetched again. A range belongs to one
// content of a file, identified by its validator or the digest that a hub has for it. Nothing
// depends on the directory: it may be corrupt or deleted at any time, and failed writes only cause
// a warning.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/remote/cache_directory.h"

namespace moepack::remote {

// Safe to use from several threads at once, and with other processes on the same directory.
class RangeCache {
 public:
  using Warn = std::function<void(const std::string&)>;
  // Null if the directory cannot be used; `warn` is then called. `limit`: bytes of all files
  // together; the least recently used are evicted.
  static std::shared_ptr<RangeCache> Open(const fs::path& path, uint64_t limit, Warn warn);
  RangeCache(const RangeCache&) = delete;
  RangeCache& operator=(const RangeCache&) = delete;
  ~RangeCache();  // reduces the directory to its limit, whatever others wrote meanwhile

  // Returns whether there may be ranges of an address, of any content.
  bool Knows(std::string_view address) const;
  uint64_t served() const { return served_; }  // bytes that were not fetched

 private:
  friend class CachedFile;
  RangeCache(CacheDirectory directory, uint64_t limit, Warn warn);
  std::shared_ptr<const CacheDirectory> directory() const;
  bool Store(const std::string& folder, const CachedRange& range, std::span<const std::byte> bytes);
  Status Write(const std::string& folder, const CachedRange& range,
               std::span<const std::byte> bytes);
  bool MakeRoom(uint64_t size);
  void Trim();

  const fs::path path_;
  const uint64_t limit_;
  const Warn warn_;
  std::atomic<uint64_t> served_{0};
  std::atomic<bool> writes_{true};  // false after a failed write

  mutable std::mutex mutex_;
  std::shared_ptr<const CacheDirectory> directory_;
  bool wrote_ = false;
  uint64_t used_ = 0;           // bytes of all files, as far as this process knows
  uint64_t since_trim_ = 0;     // bytes written since the directory was last checked
  uint64_t being_written_ = 0;  // bytes of files that may not be there yet
};

// The ranges of one content of one file. Safe to use from several threads at once.
class CachedFile {
 public:
  // `address` and `content` as for CacheDirectory::FolderName; `size` is that of the whole file.
  CachedFile(std::shared_ptr<RangeCache> cache, std::string_view address, std::string_view content,
             uint64_t size);

  // Returns whether a range seems to be completely there.
  bool Covers(uint64_t offset, uint64_t length) const;
  // Fills the parts of `out`, which begins at `offset`, that are there. Returns the missing ranges,
  // in order.
  std::vector<CachedRange> Take(uint64_t offset, std::span<std::byte> out);
  void Keep(uint64_t offset, std::span<const std::byte> bytes);
  // Counts bytes that were taken from the cache instead of being fetched.
  void CountServed(uint64_t bytes) { cache_->served_ += bytes; }

 private:
  std::optional<CachedRange> FirstBehind(uint64_t at) const;
  bool ReadPart(const CachedRange& range, uint64_t at, std::span<std::byte> out) const;
  void Insert(const CachedRange& range);
  void Forget(const CachedRange& range);

  std::shared_ptr<RangeCache> cache_;
  std::string folder_;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> ranges_;  // lengths by offset; no range is inside another
};

}  // namespace moepack::remote
