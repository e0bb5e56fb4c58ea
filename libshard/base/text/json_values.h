// Estimates how much memory a JSON document would take before it is parsed: a document of tiny
// values takes some twenty times the size of its text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

// kCorrupt when `text` has more than `most` values: scalars, keys, objects and arrays. For text
// that is not JSON the count is meaningless; the parser refuses such text.
Status CheckJsonValues(const std::string& where, std::string_view text, size_t most);

// kCorrupt for anything else.
Status CheckObject(const std::string& where, const Json& value);

// Parses a document of at most `most` values that is an object; anything else is kCorrupt.
Result<Json> ParseJsonObject(const std::string& where, std::string_view text, size_t most);

}  // namespace moepack
