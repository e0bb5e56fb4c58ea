#include "manifest/write/link_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

// A name in a directory that is held open. Even if someone swaps the directory's path meanwhile,
// nothing outside it can be written.
struct Target {
  const InsideDirectory& directory;
  const std::string& name;
  fs::path path() const { return directory.path() / name; }
};

Error CannotLink(const Target& to, LinkKind kind, const std::string& reason) {
  return Error{Code::kIo, Cat(to.path().string(), ": ", LinkName(kind), ": ", reason),
               kind == LinkKind::kCopy ? "" : "use --link auto or --link copy"};
}

Status Hardlink(const fs::path& from, const Target& to) {
  std::error_code error;
  // Links are resolved, because a node must not contain a link to a link.
  const fs::path whole = CanonicalPath(from, error);
  if (error) return CannotLink(to, LinkKind::kHardlink, ErrnoText(error.value()));
  if (linkat(AT_FDCWD, whole.c_str(), to.directory.descriptor(), to.name.c_str(), 0) == 0)
    return Ok();
  return CannotLink(to, LinkKind::kHardlink, ErrnoText(errno));
}

Status Symlink(const fs::path& from, const Target& to, const fs::path& home) {
  std::error_code error;
  const fs::path target = CanonicalPath(from, error);
  const fs::path directory = error ? fs::path() : WeaklyCanonicalPath(home, error);
  if (error) return CannotLink(to, LinkKind::kSymlink, ErrnoText(error.value()));
  // A relative link survives if both directories are moved together.
  const fs::path relative = target.lexically_relative(directory);
  if (symlinkat(relative.c_str(), to.directory.descriptor(), to.name.c_str()) == 0) return Ok();
  return CannotLink(to, LinkKind::kSymlink, ErrnoText(errno));
}

Result<Descriptor> Create(const Target& to) {
  return to.directory.OpenFile(to.name, O_WRONLY | O_CREAT | O_EXCL);
}

Status Reflink(const fs::path& from, const Target& to) {
  SHARD_TRY(const InputFile source, InputFile::Open(from));
  SHARD_TRY(const Descriptor fd, Create(to));
  if (ioctl(fd.get(), FICLONE, *source.descriptor()) == 0) {
    return FlushToDisk(fd.get(), to.path());
  }
  const int error = errno;
  // Auto goes on with a copy, which must not find the empty file.
  SHARD_CHECK(to.directory.Remove(to.name));
  return CannotLink(to, LinkKind::kReflink, ErrnoText(error));
}

Status Copy(const ByteSource& source, const Target& to, const LinkOptions& options) {
  SHARD_TRY(const uint64_t available, FreeBytes(to.path()));
  if (available < source.size()) {
    return Error{
        Code::kIo,
        Cat(to.path().string(), ": free space: expected ", FormatBytes(source.size()),
            " for a copy, found ", FormatBytes(available)),
        "free some space, or choose an output on the file system of the input, where files "
        "can be linked"};
  }
  SHARD_TRY(const Descriptor fd, Create(to));
  const uint64_t step = ScanStep(source);
  std::vector<std::byte> buffer(std::min<uint64_t>(step, source.size()));
  for (uint64_t at = 0; at < source.size(); at += step) {
    SHARD_CHECK(CheckInterrupt());
    const auto piece = std::span(buffer).first(std::min<uint64_t>(step, source.size() - at));
    SHARD_CHECK(source.ReadAt(at, piece));
    SHARD_CHECK(WriteAt(fd.get(), to.path(), at, piece));
    if (options.copied) options.copied(piece.size());
  }
  return FlushToDisk(fd.get(), to.path());
}

Status LinkAs(const fs::path& from, const Target& to, const LinkOptions& options, LinkKind kind) {
  switch (kind) {
    case LinkKind::kHardlink:
      return Hardlink(from, to);
    case LinkKind::kSymlink:
      return Symlink(from, to, options.home);
    case LinkKind::kReflink:
      return Reflink(from, to);
    case LinkKind::kAuto:
    case LinkKind::kCopy: {
      SHARD_TRY(const InputFile source, InputFile::Open(from));
      return Copy(source, to, options);
    }
  }
  return Ok();
}

bool OnOneFileSystem(const fs::path& one, const std::string& out) {
  fs::path parent = AbsolutePath(out).lexically_normal();
  std::error_code error;
  while (!fs::exists(parent, error) && parent.has_relative_path()) parent = parent.parent_path();
  struct stat here;
  struct stat there;
  return stat(one.c_str(), &here) == 0 && stat(parent.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev;
}

}  // namespace

bool WillCopy(const fs::path& from, const std::string& out, LinkKind kind) {
  return kind == LinkKind::kCopy || (kind == LinkKind::kAuto && !OnOneFileSystem(from, out));
}

const char* LinkName(LinkKind kind) {
  constexpr const char* kNames[] = {"auto", "hardlink", "reflink", "symlink", "copy"};
  return kNames[static_cast<size_t>(kind)];
}

Result<LinkKind> LinkFile(const fs::path& from, const InsideDirectory& directory,
                          const std::string& name, const LinkOptions& options) {
  const Target to{directory, name};
  LinkKind kind = options.kind;
  if (kind == LinkKind::kAuto) {
    // Symbolic links are not among them: they break when the distribution is moved.
    for (const LinkKind cheap : {LinkKind::kHardlink, LinkKind::kReflink}) {
      if (LinkAs(from, to, options, cheap)) return cheap;
    }
    kind = LinkKind::kCopy;
  }
  SHARD_CHECK(LinkAs(from, to, options, kind));
  return kind;
}

Result<LinkKind> LinkFile(const ByteSource& from, const InsideDirectory& directory,
                          const std::string& name, const LinkOptions& options) {
  if (options.kind != LinkKind::kAuto && options.kind != LinkKind::kCopy) {
    return Error{Code::kInvalidArgument,
                 Cat(from.name(), ": ", LinkName(options.kind),
                     ": expected a file of this machine, found one that has to be copied"),
                 "leave out --link"};
  }
  SHARD_CHECK(Copy(from, {directory, name}, options));
  return LinkKind::kCopy;
}

}  // namespace moepack::manifest
