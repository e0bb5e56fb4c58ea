#include "libshard/base/tool_version.h"

#ifndef MOEPACK_VERSION
#error "CMake defines MOEPACK_VERSION"
#endif

namespace moepack {

const char* ToolVersion() { return MOEPACK_VERSION; }

}  // namespace moepack
