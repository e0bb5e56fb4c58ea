// One function per family that has a converter; all.cc lists them.
#pragma once

#include "libshard/gguf_model.h"

namespace shard {

Result<GgufModel> ConvertMixtral(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertQwen3Moe(const MoeModel& model, const ConvertOptions& options);

}  // namespace shard
