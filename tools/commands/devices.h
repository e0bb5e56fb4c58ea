// `run --list-devices`: what every executor of this build can run on.
#pragma once

#include <string>

#include "libshard/base/text/json.h"

namespace moepack::cli {

// One line per device of each executor of this build, and why the others are missing.
std::string DevicesText();
moepack::Json DevicesJson();

}  // namespace moepack::cli
