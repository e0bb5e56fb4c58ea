// How much a JSON document would take in memory, before it is parsed: a document of tiny values is
// some twenty times as large as its text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack {

// kCorrupt when `text` has more than `most` values: scalars, keys, objects and arrays. For text
// that is not JSON the count means nothing; the parser refuses it.
Status CheckJsonValues(const std::string& where, std::string_view text, size_t most);

}  // namespace moepack
