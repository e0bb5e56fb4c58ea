#include "runtime-shim/families/families.h"

namespace moepack::runtime {

constinit const RuntimeFamily kRunQwen2Moe = {"qwen2moe", "Qwen2-MoE"};

}  // namespace moepack::runtime
