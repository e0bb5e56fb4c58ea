// Where temporary files go.
#pragma once

#include <filesystem>

#include "libshard/base/result.h"

namespace moepack {

inline constexpr const char* kTemporaryHint = "set TMPDIR to a directory that can be written";

// TMPDIR (or TMP, TEMP or TEMPDIR, in this order), or /tmp if none of them is set or all are empty.
// kIo, with the variable and the path, if no directory is there.
Result<std::filesystem::path> TemporaryDirectory();

}  // namespace moepack
