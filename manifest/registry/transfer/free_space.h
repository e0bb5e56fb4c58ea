// Whether what will be written fits on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "libshard/base/result.h"

namespace moepack::registry {

// Where the file system of `path`, or of its nearest existing parent, is mounted: "/home".
std::string MountOf(const std::filesystem::path& path);

// kIo, with the needed and free space and where: `needed` bytes do not fit. `there` bytes of the
// same work are already on disk.
Error NotEnoughSpace(const std::filesystem::path& path, uint64_t needed, uint64_t free,
                     uint64_t there);

// That error if fewer than `needed` bytes are free.
Status CheckFreeSpace(const std::filesystem::path& path, uint64_t needed, uint64_t there);

}  // namespace moepack::registry
