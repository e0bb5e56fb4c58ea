// A file that one long run writes again and again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/files/file.h"
#include "libshard/base/result.h"

namespace moepack {

// Replaces what the file was when it was opened and what this run wrote itself, and nothing else:
// another process may write the same file meanwhile.
class SavedFile {
 public:
  // The file need not exist. An error for anything but a regular file.
  static Result<SavedFile> Open(const fs::path& path);

  // Writes an AtomicFile. kInvalidArgument if somebody else wrote the file: what this run has to
  // save is then kept as AtomicFile does it, once, and later calls return the same error.
  Status Write(std::string_view text);

 private:
  explicit SavedFile(fs::path path) : path_(std::move(path)) {}

  fs::path path_;
  std::string known_;  // what may be replaced, as InputFile::identity; "" for nothing
  std::optional<Error> refused_;
};

}  // namespace moepack
