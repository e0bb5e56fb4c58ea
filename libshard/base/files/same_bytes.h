// Whether two files hold the same bytes.
#pragma once

#include <string>

#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"

namespace moepack {

// Compares the files of this name in two directories, up to the first difference. Neither is read
// through a link. Errors are those of InsideDirectory::OpenFile and ReadAt, and kInterrupted.
Result<bool> HaveSameBytes(const InsideDirectory& one, const InsideDirectory& other,
                           const std::string& name);

}  // namespace moepack
