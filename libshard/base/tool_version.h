// The version of this moepack, which stands in CMakeLists.txt.
#pragma once

namespace moepack {

const char* ToolVersion();

}  // namespace moepack
