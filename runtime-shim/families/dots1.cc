#include "runtime-shim/families/families.h"

namespace moepack::runtime {

constinit const RuntimeFamily kRunDots1 = {"dots1", "dots.llm1"};

}  // namespace moepack::runtime
