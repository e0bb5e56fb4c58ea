// A directory for temporary files.
#pragma once

#include <filesystem>

#include "libshard/base/result.h"

namespace moepack::runtime {

// It is created below TMPDIR or /tmp, and the destructor removes it with everything in it.
// Move-only.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> Make();
  ScratchDirectory(ScratchDirectory&& other) noexcept;
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  ScratchDirectory() = default;
  std::filesystem::path path_;
};

}  // namespace moepack::runtime
