// The two fields that every versioned document of moepack starts with: "format", its name, and
// "format_version", such as "1.2".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

struct FormatVersion {
  uint64_t major = 0, minor = 0;
};

// Digits, a point, digits, and nothing else; a major version has no zeros in front.
std::optional<FormatVersion> ParseFormatVersion(std::string_view text);

// Checks that "format" is `name` and that "format_version" is of this major version. kUnsupported
// for another major version, kCorrupt for everything else.
Result<FormatVersion> CheckFormat(const JsonFields& fields, const char* name, unsigned major);

}  // namespace moepack
