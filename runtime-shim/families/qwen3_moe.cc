#include "runtime-shim/families/families.h"

namespace runtime {

constinit const RuntimeFamily kRunQwen3Moe = {"qwen3moe", "Qwen3-MoE"};

}  // namespace runtime
