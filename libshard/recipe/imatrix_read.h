// The two file formats of importance matrices: GGUF, which is read and written, and the legacy .dat
// form, which is read.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/recipe/imatrix.h"

namespace moepack {

// Parses either format. `path` is for messages, and its last component becomes Imatrix::file. The
// bytes may be hostile. On success there is at least one entry, the number of sums of an entry is a
// multiple of its counts, and all numbers are finite and not negative. Errors are kCorrupt.
Result<Imatrix> ParseImatrix(const std::string& path, std::span<const std::byte> file);

// Parses the format that llama-imatrix wrote before GGUF. It has no magic, and holds means times
// the number of calls, with ones for experts without data. Entries are not checked further.
Result<Imatrix> ParseLegacyImatrix(const std::string& path, std::span<const std::byte> file);

// The names of the two tensors of an entry, after the name of the weight.
inline constexpr std::string_view kImatrixSums = ".in_sum2", kImatrixCounts = ".counts";
// The router digest in our files; llama.cpp ignores keys that it does not know. "" if there is
// none. kCorrupt for anything but a digest.
inline constexpr std::string_view kImatrixRouters = "moepack.router_digest";
Result<std::string> ImatrixRouters(const std::string& path, const GgufMetadata& metadata);

// The checks that ParseImatrix makes on an entry.
Status CheckImatrixEntry(const std::string& path, const std::string& name,
                         const ImatrixEntry& entry);

}  // namespace moepack
