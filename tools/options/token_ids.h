// Token ids on the command line.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/base/command.h"

namespace moepack::cli {

// Whether `text` looks like ids, and so is not the name of a file.
bool IsTokenIds(std::string_view text);
// Ids, or those in the file of that name, or for "-" those on standard input.
Result<std::vector<uint32_t>> ReadTokenIds(const std::string& option, const std::string& text);
// "12,7 9": ids separated by commas or white space. kInvalidArgument, naming `option`.
Result<std::vector<uint32_t>> ParseTokenIds(const std::string& option, std::string_view text);

// Checks a bound for relative differences of logits: a finite number, 0 or more.
CLI::Validator AsTolerance();

}  // namespace moepack::cli
