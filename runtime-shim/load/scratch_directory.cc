#include "runtime-shim/load/scratch_directory.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {

namespace fs = std::filesystem;

Result<ScratchDirectory> ScratchDirectory::Make() {
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "moepack-load-XXXXXX").string();
  if (error || mkdtemp(name.data()) == nullptr) {
    return Error{Code::kIo,
                 Cat("temporary directory ", name, ": ", ErrnoText(error ? error.value() : errno)),
                 "set TMPDIR to a directory that can be written"};
  }
  ScratchDirectory made;
  made.path_ = name;
  return made;
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, fs::path())) {}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace moepack::runtime
