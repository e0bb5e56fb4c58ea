// Counts that differ between layers, as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libshard/base/text/text.h"

namespace moepack::cli {

// "1 expert", "8 experts", "4 to 8 experts".
inline std::string RangeText(uint64_t least, uint64_t most, std::string_view noun) {
  return least == most ? Plural(most, noun) : Cat(least, " to ", most, " ", noun, "s");
}

}  // namespace moepack::cli
