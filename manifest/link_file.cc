#include "manifest/link_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "libshard/text.h"

namespace manifest {
namespace {

using shard::Cat;
using shard::Code;
using shard::Error;
using shard::Ok;
namespace fs = shard::fs;

Error CannotLink(const fs::path& to, LinkKind kind, const std::string& reason) {
  return Error{Code::kIo, Cat(to.string(), ": ", LinkName(kind), ": ", reason),
               kind == LinkKind::kCopy ? "" : "use --link auto or --link copy"};
}

Status Hardlink(const fs::path& from, const fs::path& to) {
  std::error_code error;
  // Through links: the node must not hold a link to a link.
  fs::create_hard_link(fs::canonical(from, error), to, error);
  return error ? Status(CannotLink(to, LinkKind::kHardlink, error.message())) : Ok();
}

Status Symlink(const fs::path& from, const fs::path& to, const fs::path& home) {
  std::error_code error;
  const fs::path target = fs::canonical(from, error);
  const fs::path directory = fs::weakly_canonical(home, error);
  fs::create_symlink(target.lexically_relative(directory), to, error);
  return error ? Status(CannotLink(to, LinkKind::kSymlink, error.message())) : Ok();
}

Status Reflink(const fs::path& from, const fs::path& to) {
  SHARD_TRY(const shard::InputFile source, shard::InputFile::Open(from));
  const int fd = open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return CannotLink(to, LinkKind::kReflink, shard::ErrnoText(errno));
  const int error = ioctl(fd, FICLONE, source.descriptor()) == 0 ? 0 : errno;
  const Status flushed = error == 0 ? shard::FlushToDisk(fd, to) : Ok();
  close(fd);
  if (error == 0) return flushed;
  std::error_code ignored;
  fs::remove(to, ignored);
  return CannotLink(to, LinkKind::kReflink, shard::ErrnoText(error));
}

Status Copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const uint64_t size = fs::file_size(from, error);
  SHARD_TRY(const uint64_t available, shard::FreeBytes(to));
  if (available < size) {
    return Error{Code::kIo,
                 Cat(to.string(), ": free space: expected ", shard::FormatBytes(size),
                     " for a copy of the trunk, found ", shard::FormatBytes(available)),
                 "free some space, or assemble on the distribution's own file system, where the "
                 "trunk can be linked"};
  }
  fs::copy_file(from, to, error);
  if (error) return CannotLink(to, LinkKind::kCopy, error.message());
  const int fd = open(to.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotLink(to, LinkKind::kCopy, shard::ErrnoText(errno));
  const Status flushed = shard::FlushToDisk(fd, to);
  close(fd);
  return flushed;
}

Status LinkAs(const fs::path& from, const fs::path& to, const fs::path& home, LinkKind kind) {
  switch (kind) {
    case LinkKind::kHardlink:
      return Hardlink(from, to);
    case LinkKind::kSymlink:
      return Symlink(from, to, home);
    case LinkKind::kReflink:
      return Reflink(from, to);
    case LinkKind::kAuto:
    case LinkKind::kCopy:
      return Copy(from, to);
  }
  return Ok();
}

}  // namespace

const char* LinkName(LinkKind kind) {
  constexpr const char* kNames[] = {"auto", "hardlink", "reflink", "symlink", "copy"};
  return kNames[static_cast<size_t>(kind)];
}

Result<LinkKind> LinkFile(const fs::path& from, const fs::path& to, const fs::path& home,
                          LinkKind kind) {
  if (kind == LinkKind::kAuto) {
    for (const LinkKind cheap : {LinkKind::kHardlink, LinkKind::kReflink}) {
      if (LinkAs(from, to, home, cheap)) return cheap;
    }
    kind = LinkKind::kCopy;
  }
  SHARD_CHECK(LinkAs(from, to, home, kind));
  return kind;
}

}  // namespace manifest
