// Lists directories. fs::directory_iterator is not used for it: where memory runs out in it, what
// libstdc++ 13 calls is noexcept and ends the process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/result.h"

namespace moepack {

// The names of all entries, sorted, without "." and "..". kIo, or kNotFound, with the path and the
// system's reason.
Result<std::vector<std::string>> NamesIn(const std::filesystem::path& directory);
// The same for an open directory, which `path` names in messages.
Result<std::vector<std::string>> NamesIn(Descriptor directory, const std::filesystem::path& path);

}  // namespace moepack
