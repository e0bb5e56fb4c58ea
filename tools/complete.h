// What shells offer while a command line of moepack is typed; their scripts are in
// tools/completion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/base/command.h"

namespace moepack::cli {

// The scripts run `moepack __complete WORD...`.
inline constexpr std::string_view kCompleteVerb = "__complete";

// `words` follow the program's name; the last one is being typed and may be empty. A line for each
// word that fits, with a tab and what it means if that is known; "" where only names of files fit.
std::string CompletionText(Commands commands, const std::vector<std::string>& words);

}  // namespace moepack::cli
