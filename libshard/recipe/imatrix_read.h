// The two file formats of importance matrices, read from memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "libshard/base/result.h"
#include "libshard/recipe/imatrix.h"

namespace moepack {

// Either format; `path` is for messages, and its last component becomes Imatrix::file. The bytes
// may be hostile. On success there is an entry, every entry has equally many sums for each of its
// counts, and all numbers are finite and not negative. Errors are kCorrupt.
Result<Imatrix> ParseImatrix(const std::string& path, std::span<const std::byte> file);

// The format of llama-imatrix before it wrote GGUF: no magic, means instead of sums. Their count is
// the number of calls, and experts without data hold ones. Entries are not checked further.
Result<Imatrix> ParseLegacyImatrix(const std::string& path, std::span<const std::byte> file);

}  // namespace moepack
