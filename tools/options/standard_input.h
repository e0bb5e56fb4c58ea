// Standard input in the place of a text: "-" for --text, --tokens, --prompt and the like.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "libshard/base/result.h"

namespace moepack::cli {

inline constexpr const char* kStandardInput = "-";

// The text of a file, or for "-" that of standard input, which is read once and kept for later
// calls.
Result<std::string> ReadFileOrInput(const std::string& path, uint64_t limit);
// "standard input" for "-"; otherwise the path.
std::string FileOrInput(const std::string& path);

// The text of a prompt, or for "-" that of standard input without the line break at its end.
Result<std::string> ReadPrompt(const std::string& prompt);

// Usage error if "-" was given to two of these options, or twice to one.
Status CheckStandardInput(const CLI::App& app);

}  // namespace moepack::cli
