#include "libshard/base/files/temporary_directory.h"

#include <cstdlib>
#include <string>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/text/text.h"

namespace moepack {

Result<std::filesystem::path> TemporaryDirectory() {
  std::filesystem::path path = "/tmp";
  std::string named;
  for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    path = value;
    named = Cat(name, ": ");
    break;
  }
  SHARD_TRY(const bool there, IsDirectory(path));
  if (there) return path;
  return Error{
      Code::kIo,
      Cat(named, Shown(path.string()), ": expected a directory for temporary files, found none"),
      kTemporaryHint};
}

}  // namespace moepack
