// Gives a file its name only if nothing has that name.
#pragma once

#include <filesystem>

#include "libshard/base/result.h"

namespace moepack {

// renameat(2) that fails with EEXIST if something already has the new name.
int RenameToFreeName(int from, const char* name, int to, const char* new_name);

// The error for a name that something else got while this run wrote.
Error TakenMeanwhile(const std::filesystem::path& path);

}  // namespace moepack
