// What SRC may be.
#pragma once

#include <string>

#include "libshard/base/source_tree.h"
#include "tools/base/command.h"

namespace moepack::cli {

// The one place where what a user names becomes a tree: a directory of this machine, or a file in
// one. Another kind of source is a SourceTree of its own and one line here.
Result<moepack::Source> OpenSource(const std::string& source);

}  // namespace moepack::cli
