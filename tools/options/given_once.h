// Refuses a value that an option has twice, as in --slots 4,4.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/text.h"

namespace moepack::cli {

// kInvalidArgument names the option and the value.
template <class T>
Status CheckGivenOnce(const char* option, const std::vector<T>& values) {
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (std::find(values.begin(), value, *value) == value) continue;
    std::string text;
    if constexpr (std::is_arithmetic_v<T>) {
      text = Cat(*value);
    } else {
      text = Quoted(*value);
    }
    return Error{Code::kInvalidArgument, Cat(option, ": ", text, " is given twice")};
  }
  return Ok();
}

// The same for recipes, whose names may be spelled in several ways.
Status CheckRecipesGivenOnce(const char* option, const std::vector<std::string>& recipes);

}  // namespace moepack::cli
