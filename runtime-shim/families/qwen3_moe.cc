#include "runtime-shim/families/families.h"

namespace moepack::runtime {

constinit const RuntimeFamily kRunQwen3Moe = {"qwen3moe", "Qwen3-MoE"};

}  // namespace moepack::runtime
