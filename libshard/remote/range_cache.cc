#include "libshard/remote/range_cache.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>
#include <utility>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

// The most in one file of the cache, because all of it is read to check it.
constexpr uint64_t kMostKeptRange = 4u << 20;
// A process looks at the directory again after writing this part of the limit, and makes room for
// as much at once.
constexpr uint64_t kTrimPart = 16;

bool UsedEarlier(const CacheDirectory::File& a, const CacheDirectory::File& b) {
  return std::tie(a.used.tv_sec, a.used.tv_nsec) < std::tie(b.used.tv_sec, b.used.tv_nsec);
}

}  // namespace

// ---- The directory

std::shared_ptr<RangeCache> RangeCache::Open(const fs::path& path, uint64_t limit, Warn warn) {
  auto directory = CacheDirectory::OpenOrMake(path);
  if (!directory) {
    const Error& error = directory.error();
    warn(Cat(error.message, ": continuing without the cache", error.hint.empty() ? "" : ": ",
             error.hint));
    return nullptr;
  }
  return std::shared_ptr<RangeCache>(new RangeCache(*std::move(directory), limit, std::move(warn)));
}

RangeCache::RangeCache(CacheDirectory directory, uint64_t limit, Warn warn)
    : path_(directory.path()),
      limit_(limit),
      warn_(std::move(warn)),
      directory_(std::make_shared<const CacheDirectory>(std::move(directory))) {
  Trim();
}

RangeCache::~RangeCache() {
  if (wrote_) Trim();
}

std::shared_ptr<const CacheDirectory> RangeCache::directory() const {
  const std::lock_guard lock(mutex_);
  return directory_;
}

bool RangeCache::Knows(std::string_view address) const {
  const std::string start = CacheDirectory::FolderStart(address);
  const std::vector<std::string> folders = directory()->Folders();
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& name) { return name.starts_with(start); });
}

// REQUIRES: mutex_ is held, or no other thread has this object.
void RangeCache::Trim() {
  std::vector<CacheDirectory::File> files;
  uint64_t total = being_written_;
  for (const std::string& folder : directory_->Folders()) {
    for (CacheDirectory::File& file : directory_->Files(folder)) {
      if (file.range.length == 0) {
        directory_->Remove(folder, file.name);
        continue;
      }
      total += file.size;
      files.push_back(std::move(file));
    }
  }
  since_trim_ = 0;
  used_ = total;
  if (total <= limit_) return;
  std::sort(files.begin(), files.end(), UsedEarlier);
  for (const CacheDirectory::File& file : files) {
    if (used_ <= limit_ - limit_ / kTrimPart) return;
    directory_->Remove(file.folder, file.name);
    used_ -= file.size;
  }
}

// False if what others are writing leaves no room.
bool RangeCache::MakeRoom(uint64_t size) {
  const std::lock_guard lock(mutex_);
  if (being_written_ + size > limit_) return false;  // removing anything would not help
  used_ += size;
  since_trim_ += size;
  being_written_ += size;
  if (used_ > limit_ || since_trim_ > limit_ / kTrimPart) Trim();
  return wrote_ = true;
}

// Recreates the directory if it was removed.
Status RangeCache::Write(const std::string& folder, const CachedRange& range,
                         std::span<const std::byte> bytes) {
  Status status = directory()->Write(folder, range, bytes);
  if (status || status.error().code != Code::kNotFound) return status;
  SHARD_TRY(CacheDirectory again, CacheDirectory::OpenOrMake(path_));
  auto shared = std::make_shared<const CacheDirectory>(std::move(again));
  {
    const std::lock_guard lock(mutex_);
    directory_ = shared;
  }
  return shared->Write(folder, range, bytes);
}

bool RangeCache::Store(const std::string& folder, const CachedRange& range,
                       std::span<const std::byte> bytes) {
  const uint64_t size = CacheDirectory::SizeOnDisk(bytes.size());
  if (!writes_ || size > limit_ || !MakeRoom(size)) return false;
  const Status status = Write(folder, range, bytes);
  {
    const std::lock_guard lock(mutex_);
    being_written_ -= size;
  }
  if (!status && writes_.exchange(false))
    warn_(Cat(status.error().message, ": continuing, but nothing more is kept in the cache"));
  return status.has_value();
}

// ---- One file

CachedFile::CachedFile(std::shared_ptr<RangeCache> cache, std::string_view address,
                       std::string_view content, uint64_t size)
    : cache_(std::move(cache)),
      folder_(CacheDirectory::FolderName(address, Cat(content, "\n", size))) {
  for (const CacheDirectory::File& file : cache_->directory()->Files(folder_)) {
    const CachedRange& range = file.range;
    if (range.length > 0 && range.length <= kMostKeptRange && range.end() <= size) Insert(range);
  }
}

// Keeps the ends in the order of the beginnings.
void CachedFile::Insert(const CachedRange& range) {
  const std::lock_guard lock(mutex_);
  auto at = ranges_.upper_bound(range.offset);
  if (at != ranges_.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second >= range.end()) return;
    if (before->first == range.offset) at = before;
  }
  while (at != ranges_.end() && at->first + at->second <= range.end()) at = ranges_.erase(at);
  ranges_[range.offset] = range.length;
}

void CachedFile::Forget(const CachedRange& range) {
  const std::lock_guard lock(mutex_);
  const auto at = ranges_.find(range.offset);
  if (at != ranges_.end() && at->second == range.length) ranges_.erase(at);
}

std::optional<CachedRange> CachedFile::FirstBehind(uint64_t at) const {
  const std::lock_guard lock(mutex_);
  auto next = ranges_.upper_bound(at);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second > at) next = before;
  }
  if (next == ranges_.end()) return std::nullopt;
  return CachedRange{next->first, next->second};
}

bool CachedFile::Covers(uint64_t offset, uint64_t length) const {
  const uint64_t end = offset + length;
  while (offset < end) {
    const auto range = FirstBehind(offset);
    if (!range || range->offset > offset) return false;
    offset = range->end();
  }
  return true;
}

bool CachedFile::ReadPart(const CachedRange& range, uint64_t at, std::span<std::byte> out) const {
  const auto directory = cache_->directory();
  if (out.size() == range.length) return directory->Read(folder_, range, out);
  std::vector<std::byte> whole(range.length);
  if (!directory->Read(folder_, range, whole)) return false;
  std::memcpy(out.data(), whole.data() + (at - range.offset), out.size());
  return true;
}

std::vector<CachedRange> CachedFile::Take(uint64_t offset, std::span<std::byte> out) {
  std::vector<CachedRange> missing;
  const uint64_t end = offset + out.size();
  for (uint64_t at = offset; at < end;) {
    const auto range = FirstBehind(at);
    const uint64_t from = range ? std::clamp(range->offset, at, end) : end;
    if (from > at) {
      const bool goes_on = !missing.empty() && missing.back().end() == at;
      if (!goes_on) missing.push_back({at, 0});
      missing.back().length += from - at;
      at = from;
      continue;
    }
    const uint64_t to = std::min(range->end(), end);
    if (!ReadPart(*range, at, out.subspan(at - offset, to - at))) {
      Forget(*range);
      continue;
    }
    at = to;
  }
  return missing;
}

void CachedFile::Keep(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min<uint64_t>(bytes.size(), kMostKeptRange));
    const CachedRange range{offset, piece.size()};
    if (cache_->Store(folder_, range, piece)) Insert(range);
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

}  // namespace moepack::remote
