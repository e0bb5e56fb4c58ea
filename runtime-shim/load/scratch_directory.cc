#include "runtime-shim/load/scratch_directory.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "libshard/base/files/file.h"
#include "libshard/base/files/temporary_directory.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {

namespace fs = std::filesystem;

Result<ScratchDirectory> ScratchDirectory::Make() {
  SHARD_TRY(const fs::path directory, TemporaryDirectory());
  std::string name = (directory / "moepack-load-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    return Error{Code::kIo,
                 Cat(directory.string(), ": make a temporary directory: ", ErrnoText(errno)),
                 kTemporaryHint};
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
