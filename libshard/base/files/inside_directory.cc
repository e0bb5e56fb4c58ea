#include "libshard/base/files/inside_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "libshard/base/files/directory_names.h"
#include "libshard/base/files/free_name.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

InsideDirectory::Kind KindOfMode(mode_t mode) {
  if (S_ISREG(mode)) return InsideDirectory::Kind::kFile;
  if (S_ISDIR(mode)) return InsideDirectory::Kind::kDirectory;
  return S_ISLNK(mode) ? InsideDirectory::Kind::kLink : InsideDirectory::Kind::kOther;
}

Error AlreadyExists(const fs::path& path) {
  return {Code::kInvalidArgument, Cat(path.string(), " already exists"), "--force replaces it"};
}

bool IsInside(const std::vector<std::string>& parts) {
  return std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part.empty() || part == "." || part == ".." || part.find('\0') != part.npos;
  });
}

}  // namespace

struct InsideDirectory::Place {
  InsideDirectory directory;
  std::string part;
};

// ---- Opening

Result<InsideDirectory> InsideDirectory::Open(const fs::path& path) {
  Descriptor fd(open(path.c_str(), kDirectoryFlags));
  if (!fd.valid()) return IoError(path, "open the directory", errno);
  return InsideDirectory(std::move(fd), path);
}

Result<InsideDirectory> InsideDirectory::OpenItself(const fs::path& path) {
  Descriptor fd(open(path.c_str(), kDirectoryFlags | O_NOFOLLOW));
  if (!fd.valid()) return IoError(path, "open the directory", errno);
  return InsideDirectory(std::move(fd), path);
}

Result<InsideDirectory> InsideDirectory::OpenOrMake(const fs::path& path) {
  Descriptor fd(open(path.c_str(), kDirectoryFlags));
  if (fd.valid()) return InsideDirectory(std::move(fd), path);
  if (errno != ENOENT || path.empty()) return IoError(path, "open the directory", errno);
  if (!path.has_filename()) return OpenOrMake(path.parent_path());  // "a/b/"
  SHARD_TRY(const InsideDirectory parent,
            path.has_parent_path() ? OpenOrMake(path.parent_path()) : Open("."));
  SHARD_CHECK(parent.MakeChild(path.filename().string()));
  // A dangling link is in the way: trying to create it again would never end.
  return parent.Child(path.filename().string());
}

Result<InsideDirectory> InsideDirectory::Child(const std::string& part) const {
  Descriptor fd(openat(descriptor(), part.c_str(), kDirectoryFlags | O_NOFOLLOW));
  if (fd.valid()) return InsideDirectory(std::move(fd), path_ / part);
  const int error = errno;
  struct stat info;
  const bool link =
      fstatat(descriptor(), part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
  if (!link) return Failed(part, "open the directory", error);
  return Error{Code::kInvalidArgument,
               Cat((path_ / part).string(), ": expected a directory, found a link"),
               "nothing is written or removed through links: remove it, or choose another output"};
}

Status InsideDirectory::MakeChild(const std::string& part) const {
  if (mkdirat(descriptor(), part.c_str(), 0777) == 0) return Flush();
  if (errno == EEXIST) return Ok();
  Error error = Failed(part, "create", errno);
  error.code = Code::kIo;  // for any reason: nothing was looked for
  return error;
}

Result<InsideDirectory::Place> InsideDirectory::PlaceOf(const std::string& name, bool make) const {
  std::vector<std::string> parts = Split(name, '/');
  if (!IsInside(parts)) {
    return Error{Code::kInvalidArgument,
                 Cat(path_.string(), ": expected a name inside it, found ", Quoted(name))};
  }
  std::string last = std::move(parts.back());
  parts.pop_back();
  InsideDirectory at(Descriptor(fcntl(descriptor(), F_DUPFD_CLOEXEC, 0)), path_);
  if (!at.fd_.valid()) return IoError(path_, "open the directory", errno);
  for (const std::string& part : parts) {
    if (make) SHARD_CHECK(at.MakeChild(part));
    SHARD_TRY(at, at.Child(part));
  }
  return Place{std::move(at), std::move(last)};
}

Result<InsideDirectory> InsideDirectory::OpenDirectory(const std::string& name) const {
  SHARD_TRY(const Place place, PlaceOf(name, false));
  return place.directory.Child(place.part);
}

Result<InsideDirectory> InsideDirectory::MakeDirectories(const std::string& name) const {
  SHARD_TRY(const Place place, PlaceOf(name, true));
  SHARD_CHECK(place.directory.MakeChild(place.part));
  return place.directory.Child(place.part);
}

Result<Descriptor> InsideDirectory::OpenFile(const std::string& name, int flags) const {
  SHARD_TRY(const Place place, PlaceOf(name, (flags & O_CREAT) != 0));
  const int all = flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Descriptor fd(openat(place.directory.descriptor(), place.part.c_str(), all, 0666));
  if (!fd.valid() && errno != ELOOP) {
    return Failed(name, (flags & O_CREAT) != 0 ? "create" : "open", errno);
  }
  struct stat info = {};
  if (fd.valid() && fstat(fd.get(), &info) != 0) return Failed(name, "look it up", errno);
  if (fd.valid() && S_ISREG(info.st_mode)) return fd;
  return Error{Code::kInvalidArgument,
               Cat((path_ / name).string(), ": expected a regular file, found ",
                   fd.valid() ? "something else" : "a link")};
}

// ---- Text

Result<std::string> InsideDirectory::ReadText(const std::string& name, uint64_t limit) const {
  SHARD_TRY(const Descriptor fd, OpenFile(name, O_RDONLY));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return Failed(name, "read", errno);
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > limit) {
    return Error{Code::kCorrupt, Cat((path_ / name).string(), ": file size: expected at most ",
                                     limit, " bytes, found ", size)};
  }
  std::string text(size, '\0');
  SHARD_CHECK(ReadAt(fd.get(), path_ / name, 0, std::as_writable_bytes(std::span(text))));
  return text;
}

Status InsideDirectory::WriteText(const std::string& name, std::string_view text) const {
  return WritePieces(name, [&](const TextSink& sink) { return sink(text); });
}

Status InsideDirectory::WritePieces(const std::string& name,
                                    const std::function<Status(const TextSink&)>& make) const {
  SHARD_TRY(const Place place, PlaceOf(name, true));
  const InsideDirectory& folder = place.directory;
  SHARD_TRY(const TemporaryFile temporary,
            MakeTemporaryFile(folder.descriptor(), place.part, path_ / name));
  const int fd = temporary.fd.get();
  uint64_t written = 0;
  const auto append = [&](std::string_view text) -> Status {
    const uint64_t at = std::exchange(written, written + text.size());
    return WriteAt(fd, path_ / name, at, std::as_bytes(std::span(text.data(), text.size())));
  };
  const auto write = [&]() -> Status {
    SHARD_CHECK(make(append));
    SHARD_CHECK(FlushToDisk(fd, path_ / name));
    return folder.Move(temporary.name, folder, place.part, true);
  };
  Status status = write();
  if (!status) (void)folder.RemoveFile(temporary.name).has_value();
  return status;
}

// ---- Looking

Result<InsideDirectory::Kind> InsideDirectory::KindOf(const std::string& name) const {
  auto place = PlaceOf(name, false);
  if (!place && place.error().code == Code::kNotFound) return Kind::kNothing;
  if (!place) return std::move(place).error();
  struct stat info;
  const int fd = place->directory.descriptor();
  if (fstatat(fd, place->part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    return KindOfMode(info.st_mode);
  }
  if (errno == ENOENT) return Kind::kNothing;
  return Failed(name, "look it up", errno);
}

Result<bool> InsideDirectory::IsStill(const InsideDirectory& parent,
                                      const std::string& name) const {
  struct stat by_name;
  struct stat open;
  if (fstatat(parent.descriptor(), name.c_str(), &by_name, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return false;
    return parent.Failed(name, "look it up", errno);
  }
  if (fstat(descriptor(), &open) != 0) return IoError(path_, "look it up", errno);
  return by_name.st_ino == open.st_ino && by_name.st_dev == open.st_dev;
}

Result<std::string> InsideDirectory::IdentityOf(const std::string& name) const {
  auto place = PlaceOf(name, false);
  if (!place && place.error().code == Code::kNotFound) return std::string();
  if (!place) return std::move(place).error();
  struct stat info;
  const int fd = place->directory.descriptor();
  if (fstatat(fd, place->part.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return std::string();
    return Failed(name, "look it up", errno);
  }
  return Cat(info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, " ", info.st_mtim.tv_nsec);
}

Result<std::vector<InsideDirectory::Entry>> InsideDirectory::List() const {
  // A descriptor of its own: reading moves its position.
  SHARD_TRY(const std::vector<std::string> names,
            NamesIn(Descriptor(openat(descriptor(), ".", kDirectoryFlags)), path_));
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    struct stat info;
    if (fstatat(descriptor(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
      entries.push_back({name, KindOfMode(info.st_mode)});
    } else if (errno != ENOENT) {
      return Failed(name, "look it up", errno);
    }
  }
  return entries;
}

Status InsideDirectory::ListInto(const std::string& prefix, std::vector<std::string>& files) const {
  SHARD_TRY(const std::vector<Entry> entries, List());
  for (const Entry& entry : entries) {
    if (entry.kind != Kind::kDirectory) {
      files.push_back(prefix + entry.name);
      continue;
    }
    SHARD_TRY(const InsideDirectory child, Child(entry.name));
    SHARD_CHECK(child.ListInto(Cat(prefix, entry.name, "/"), files));
  }
  return Ok();
}

Result<std::vector<std::string>> InsideDirectory::ListFiles() const {
  std::vector<std::string> files;
  SHARD_CHECK(ListInto("", files));
  return files;
}

// ---- Changing

Status InsideDirectory::Move(const std::string& name, const InsideDirectory& to,
                             const std::string& new_name, bool replace) const {
  SHARD_TRY(const Place source, PlaceOf(name, false));
  SHARD_TRY(const Place target, to.PlaceOf(new_name, true));
  const int from_fd = source.directory.descriptor();
  const int to_fd = target.directory.descriptor();
  const int result =
      replace ? renameat(from_fd, source.part.c_str(), to_fd, target.part.c_str())
              : RenameToFreeName(from_fd, source.part.c_str(), to_fd, target.part.c_str());
  if (result == 0) return target.directory.Flush();
  if (!replace && errno == EEXIST) {
    return AlreadyExists(to.path_ / new_name);
  }
  return to.Failed(new_name, "rename", errno);
}

Result<bool> InsideDirectory::MoveDirectory(const std::string& name, const InsideDirectory& to,
                                            const std::string& new_name) const {
  if (RenameToFreeName(descriptor(), name.c_str(), to.descriptor(), new_name.c_str()) == 0) {
    SHARD_CHECK(to.Flush());
    return true;
  }
  if (errno == EBUSY || errno == EXDEV) return false;
  if (errno == EEXIST) return AlreadyExists(to.path_ / new_name);
  return to.Failed(new_name, "rename", errno);
}

Status InsideDirectory::Remove(const std::string& name,
                               const std::vector<std::string>& last) const {
  auto place = PlaceOf(name, false);
  if (!place && place.error().code == Code::kNotFound) return Ok();
  if (!place) return std::move(place).error();
  return place->directory.RemoveChild(place->part, last);
}

Status InsideDirectory::RemoveChild(const std::string& part,
                                    const std::vector<std::string>& last) const {
  if (unlinkat(descriptor(), part.c_str(), 0) == 0 || errno == ENOENT) return Ok();
  const int error = errno;
  struct stat info;
  if (fstatat(descriptor(), part.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? Ok() : Status(Failed(part, "look it up", errno));
  if (!S_ISDIR(info.st_mode)) return Failed(part, "remove", error);
  SHARD_TRY(const InsideDirectory child, Child(part));
  SHARD_TRY(const std::vector<Entry> entries, child.List());
  const auto is_last = [&](const Entry& entry) {
    return std::find(last.begin(), last.end(), entry.name) != last.end();
  };
  for (const bool now : {false, true}) {
    for (const Entry& entry : entries) {
      if (is_last(entry) == now) SHARD_CHECK(child.RemoveChild(entry.name, {}));
    }
    if (!now && !last.empty()) SHARD_CHECK(child.Flush());
  }
  return RemoveEmptyDirectory(part);
}

Status InsideDirectory::RemoveFile(const std::string& name) const {
  auto place = PlaceOf(name, false);
  if (!place && place.error().code == Code::kNotFound) return Ok();
  if (!place) return std::move(place).error();
  const int result = unlinkat(place->directory.descriptor(), place->part.c_str(), 0);
  return result == 0 || errno == ENOENT ? Ok() : Status(Failed(name, "remove", errno));
}

Status InsideDirectory::RemoveEmptyDirectory(const std::string& name) const {
  SHARD_TRY(const Place place, PlaceOf(name, false));
  const int result = unlinkat(place.directory.descriptor(), place.part.c_str(), AT_REMOVEDIR);
  return result == 0 || errno == ENOENT ? Ok() : Status(Failed(name, "remove", errno));
}

Status InsideDirectory::Flush() const {
  // Some file systems cannot flush a directory and return EINVAL; nothing more can be done on them.
  int result = fsync(descriptor());
  while (result != 0 && errno == EINTR) result = fsync(descriptor());
  if (result == 0 || errno == EINVAL) return Ok();
  return IoError(path_, "flush to disk", errno);
}

Status InsideDirectory::FlushAll() const {
  SHARD_TRY(const std::vector<Entry> entries, List());
  for (const Entry& entry : entries) {
    if (entry.kind != Kind::kDirectory) continue;
    SHARD_TRY(const InsideDirectory child, Child(entry.name));
    SHARD_CHECK(child.FlushAll());
  }
  return Flush();
}

Error InsideDirectory::Failed(const std::string& name, std::string_view action, int error) const {
  return IoError(path_ / name, action, error);
}

}  // namespace moepack
