#include "tools/options/source.h"

#include "libshard/base/local_tree.h"

namespace moepack::cli {

Result<moepack::Source> OpenSource(const std::string& source) { return LocalSource(source); }

}  // namespace moepack::cli
