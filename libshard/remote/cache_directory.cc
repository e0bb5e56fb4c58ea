#include "libshard/remote/cache_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <optional>

#include "libshard/base/digest.h"
#include "libshard/base/files/directory_names.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr size_t kAddressDigits = 16, kContentDigits = 32;
constexpr std::string_view kTemporary = ".tmp-";
constexpr time_t kAbandonedAfter = 3600;  // seconds
// A file begins with these words and the XXH3-128 of its place and its bytes.
constexpr std::string_view kRangeMark = "moepack range 1\n";
constexpr size_t kRangeHead = kRangeMark.size() + 32;

std::string RangeName(const CachedRange& range) { return Cat(range.offset, "-", range.length); }

std::string RangeHead(const std::string& folder, const CachedRange& range,
                      std::span<const std::byte> bytes) {
  const std::string place = Cat(folder, "/", RangeName(range), "\n");
  Xxh3 digest;
  digest.Update(std::as_bytes(std::span(place)));
  digest.Update(bytes);
  return Cat(kRangeMark, digest.Hex());
}

bool IsFolderName(std::string_view name) {
  return name.size() == kAddressDigits + 1 + kContentDigits && name[kAddressDigits] == '-' &&
         IsHex(name.substr(0, kAddressDigits), kAddressDigits) &&
         IsHex(name.substr(kAddressDigits + 1), kContentDigits);
}

// "4096-512".
std::optional<CachedRange> ParseRangeName(std::string_view name) {
  const size_t dash = name.find('-');
  if (dash == name.npos) return std::nullopt;
  const auto offset = ParseUint(name.substr(0, dash)), length = ParseUint(name.substr(dash + 1));
  if (!offset || !length || *length == 0 || *length > UINT64_MAX - *offset) return std::nullopt;
  return CachedRange{*offset, *length};
}

std::string TemporaryName(const CachedRange& range) {
  static std::atomic<uint64_t> count{0};
  return Cat(RangeName(range), kTemporary, getpid(), "-", ++count);
}

// None if the directory cannot be listed: the cache is then not used.
std::vector<std::string> NamesBelow(int directory) {
  auto names = NamesIn(Descriptor(openat(directory, ".", kFolderFlags)), ".");
  return names ? *std::move(names) : std::vector<std::string>();
}

// What a name refers to; no value for what does not belong to the cache, and for a temporary file
// that may still be written.
std::optional<CacheDirectory::File> LookAt(int folder, const std::string& name) {
  const size_t mark = name.find(kTemporary);
  const auto range = ParseRangeName(std::string_view(name).substr(0, mark));
  struct stat info;
  if (!range || fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  CacheDirectory::File file;
  file.name = name;
  file.size = static_cast<uint64_t>(info.st_size);
  file.used = info.st_mtim;
  const bool whole = S_ISREG(info.st_mode) && mark == name.npos;
  if (whole) file.range = *range;
  if (mark != name.npos && time(nullptr) - info.st_mtim.tv_sec < kAbandonedAfter)
    return std::nullopt;
  return file;
}

bool ReadAllOf(int fd, std::span<std::byte> out) {
  return moepack::ReadAt(fd, "", kRangeHead, out).has_value();
}

// Reads a range and returns whether it is what was written.
bool ReadChecked(int fd, const std::string& folder, const CachedRange& range,
                 std::span<std::byte> out) {
  struct stat info;
  std::string head(kRangeHead, '\0');
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (static_cast<uint64_t>(info.st_size) != CacheDirectory::SizeOnDisk(range.length)) return false;
  if (!moepack::ReadAt(fd, "", 0, std::as_writable_bytes(std::span(head)))) return false;
  return ReadAllOf(fd, out) && head == RangeHead(folder, range, out);
}

}  // namespace

uint64_t CacheDirectory::SizeOnDisk(uint64_t length) { return kRangeHead + length; }

std::string CacheDirectory::FolderStart(std::string_view address) {
  return Sha256Hex(address).substr(0, kAddressDigits) + "-";
}

std::string CacheDirectory::FolderName(std::string_view address, std::string_view content) {
  return FolderStart(address) + Sha256Hex(Cat(address, "\n", content)).substr(0, kContentDigits);
}

Result<CacheDirectory> CacheDirectory::OpenOrMake(const fs::path& named) {
  const fs::path path = named.has_filename() ? named : named.parent_path();  // "cache/"
  const fs::path parent = path.parent_path();
  if (!parent.empty()) SHARD_CHECK(InsideDirectory::OpenOrMake(parent));
  const bool made = mkdir(path.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return IoError(path, "create", errno);
  Descriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return IoError(path, "open the directory", errno);
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error{Code::kInvalidArgument,
                 Cat(path.string(), ": expected a directory that only you can write, found ",
                     info.st_uid == geteuid() ? "one that others can write, too" : "another's"),
                 Cat("chmod go-w ", ShellWord(PathArgument(path.string())), ", or choose another")};
  }
  return CacheDirectory(std::move(fd), path);
}

Result<Descriptor> CacheDirectory::OpenFolder(const std::string& folder, bool make) const {
  Descriptor fd(openat(fd_.get(), folder.c_str(), kFolderFlags));
  if (!fd.valid() && errno == ENOENT && make) {
    if (mkdirat(fd_.get(), folder.c_str(), 0700) != 0 && errno != EEXIST)
      return IoError(path_ / folder, "create", errno);
    fd = Descriptor(openat(fd_.get(), folder.c_str(), kFolderFlags));
  }
  if (!fd.valid()) return IoError(path_ / folder, "open the directory", errno);
  return fd;
}

std::vector<std::string> CacheDirectory::Folders() const {
  std::vector<std::string> folders = NamesBelow(fd_.get());
  std::erase_if(folders, [](const std::string& name) { return !IsFolderName(name); });
  return folders;
}

std::vector<CacheDirectory::File> CacheDirectory::Files(const std::string& folder) const {
  std::vector<File> files;
  const auto fd = OpenFolder(folder, false);
  if (!fd) return files;
  for (const std::string& name : NamesBelow(fd->get())) {
    if (auto file = LookAt(fd->get(), name)) {
      file->folder = folder;
      files.push_back(*std::move(file));
    }
  }
  return files;
}

bool CacheDirectory::Read(const std::string& folder, const CachedRange& range,
                          std::span<std::byte> out) const {
  const auto directory = OpenFolder(folder, false);
  if (!directory) return false;
  const std::string name = RangeName(range);
  const Descriptor fd(
      openat(directory->get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd.valid() && ReadChecked(fd.get(), folder, range, out)) {
    (void)futimens(fd.get(), nullptr);
    return true;
  }
  const bool link = !fd.valid() && (errno == ELOOP || errno == ENXIO);
  if (fd.valid() || link) Remove(folder, name);
  return false;
}

Status CacheDirectory::Write(const std::string& folder, const CachedRange& range,
                             std::span<const std::byte> bytes) const {
  SHARD_TRY(const Descriptor directory, OpenFolder(folder, true));
  const std::string name = RangeName(range), temporary = TemporaryName(range);
  const fs::path path = path_ / folder / name;
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const Descriptor fd(openat(directory.get(), temporary.c_str(), flags, 0600));
  if (!fd.valid()) return IoError(path, "create", errno);
  const std::string head = RangeHead(folder, range, bytes);
  Status status = WriteAt(fd.get(), path, 0, std::as_bytes(std::span(head)));
  if (status) status = WriteAt(fd.get(), path, head.size(), bytes);
  if (status && renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()) != 0)
    status = IoError(path, "rename", errno);
  if (!status) (void)unlinkat(directory.get(), temporary.c_str(), 0);
  return status;
}

void CacheDirectory::Remove(const std::string& folder, const std::string& name) const {
  const auto directory = OpenFolder(folder, false);
  if (!directory) return;
  (void)unlinkat(directory->get(), name.c_str(), 0);
  (void)unlinkat(fd_.get(), folder.c_str(), AT_REMOVEDIR);
}

}  // namespace moepack::remote
