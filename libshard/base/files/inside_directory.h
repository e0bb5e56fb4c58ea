// Everything that is written, replaced or removed in an existing directory goes through this class,
// so that nothing outside it can be reached, whatever the directory holds and whatever is swapped
// in meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/temporary_file.h"
#include "libshard/base/result.h"

namespace moepack {

// A directory that is held open; move-only. Names are relative to it, with '/' between parts; no
// part is empty, "." or "..". Every part is opened from the descriptor of the previous one
// (O_NOFOLLOW), so a link on the way is refused (kInvalidArgument), even if it is put there during
// the call. The last part may be a link only if the link itself is moved, replaced or removed.
class InsideDirectory {
 public:
  enum class Kind { kNothing, kFile, kDirectory, kLink, kOther };
  struct Entry {
    std::string name;
    Kind kind = Kind::kNothing;
    bool operator==(const Entry&) const = default;
  };

  // The user named `path`: links in it are followed.
  static Result<InsideDirectory> Open(const fs::path& path);
  // The same, but refuses a link as the last part.
  static Result<InsideDirectory> OpenItself(const fs::path& path);
  // As Open, but makes the directory and its missing parents first. Each new directory is on disk
  // before this returns.
  static Result<InsideDirectory> OpenOrMake(const fs::path& path);

  const fs::path& path() const { return path_; }
  int descriptor() const { return fd_.get(); }

  Result<InsideDirectory> OpenDirectory(const std::string& name) const;
  // Makes the missing parts of `name`, as OpenOrMake does.
  Result<InsideDirectory> MakeDirectories(const std::string& name) const;
  // `flags` as for open(2). Anything but a regular file is refused. With O_CREAT, missing parent
  // directories are made.
  Result<Descriptor> OpenFile(const std::string& name, int flags) const;
  Result<std::string> ReadText(const std::string& name, uint64_t limit) const;
  // Writes a temporary file (temporary_file.h), flushes it and renames it to `name`; makes missing
  // parent directories.
  Status WriteText(const std::string& name, std::string_view text) const;
  // The same for text that `make` delivers in pieces.
  using TextSink = std::function<Status(std::string_view)>;
  Status WritePieces(const std::string& name,
                     const std::function<Status(const TextSink&)>& make) const;

  // Returns what is under this name.
  Result<Kind> KindOf(const std::string& name) const;
  // Returns whether `name` in `parent` is still this directory; an error if that cannot be known.
  Result<bool> IsStill(const InsideDirectory& parent, const std::string& name) const;
  // Inode, size and time of modification of what is under this name: what renaming keeps, and
  // another file under the name does not have. "" if nothing is there.
  Result<std::string> IdentityOf(const std::string& name) const;
  // Lists what is directly in this directory, sorted by name.
  Result<std::vector<Entry>> List() const;
  // Lists the names of everything but directories, here and in all subdirectories.
  Result<std::vector<std::string>> ListFiles() const;

  // Renames a file or directory, makes the parents of its new name and flushes the last of them.
  // Without `replace` it is an error if the new name exists.
  Status Move(const std::string& name, const InsideDirectory& to, const std::string& new_name,
              bool replace) const;
  // The same for a directory whose new name is free. False if the file system cannot rename this
  // one: a mount point (EBUSY), or a directory of a lower layer of overlayfs (EXDEV).
  Result<bool> MoveDirectory(const std::string& name, const InsideDirectory& to,
                             const std::string& new_name) const;
  // Removes a file, a link or a directory with everything in it; `last` names entries of the
  // directory that are removed last. It is not an error if nothing has this name.
  Status Remove(const std::string& name, const std::vector<std::string>& last = {}) const;
  // The same for a file or a link; a directory stays, and is an error.
  Status RemoveFile(const std::string& name) const;
  Status RemoveEmptyDirectory(const std::string& name) const;
  // Flushes this directory; FlushAll also flushes those below.
  Status Flush() const;
  Status FlushAll() const;

 private:
  InsideDirectory(Descriptor fd, fs::path path) : fd_(std::move(fd)), path_(std::move(path)) {}
  // The directory that holds the last part of `name`, and that part.
  struct Place;
  Result<Place> PlaceOf(const std::string& name, bool make) const;
  Result<InsideDirectory> Child(const std::string& part) const;
  Status MakeChild(const std::string& part) const;
  Status RemoveChild(const std::string& part, const std::vector<std::string>& last) const;
  Status ListInto(const std::string& prefix, std::vector<std::string>& files) const;
  Error Failed(const std::string& name, std::string_view action, int error) const;

  Descriptor fd_;
  fs::path path_;  // for messages
};

}  // namespace moepack
