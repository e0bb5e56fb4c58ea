// Whether what will be written fits on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "libshard/base/result.h"

namespace moepack::registry {

// Where the file system of `path`, or of its nearest parent that exists, is mounted: "/home".
std::string MountOf(const std::filesystem::path& path);

// kIo, with what is needed, what is free and where: `needed` bytes do not fit. `there` bytes of the
// same work are on the disk already.
Error NotEnoughSpace(const std::filesystem::path& path, uint64_t needed, uint64_t free,
                     uint64_t there);

// That error when fewer than `needed` bytes are free.
Status CheckFreeSpace(const std::filesystem::path& path, uint64_t needed, uint64_t there);

}  // namespace moepack::registry
