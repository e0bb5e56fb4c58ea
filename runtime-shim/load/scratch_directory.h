// A directory for files that are needed for a moment.
#pragma once

#include <filesystem>

#include "libshard/base/result.h"

namespace moepack::runtime {

// Below TMPDIR, or /tmp; removed with all that is in it. Move-only.
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
