// config.json as Python writes it: with the bare words Infinity and NaN, which are not JSON.
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/text/json.h"

namespace moepack {

// Infinity and -Infinity become strings, which are an error only where we expect a number
// (time_step_limit of Nemotron-3-Super has one). NaN is always a mistake and is refused. Otherwise
// the same as ParseJson.
Result<Json> ParsePythonJson(const std::string& where, std::string_view text);

// Like WriteJson, but writes those strings as bare words again.
std::string WritePythonJson(const Json& document);

}  // namespace moepack
