#include <algorithm>

#include "libshard/convert/converter.h"
#include "libshard/convert/families.h"

namespace shard {
namespace {

constexpr GgufConverter kConverters[] = {
    {"mixtral", "llama", ConvertMixtral},
    {"qwen3-moe", "qwen3moe", ConvertQwen3Moe},
};

}  // namespace

std::span<const GgufConverter> AllConverters() { return kConverters; }

const GgufConverter* FindConverter(std::string_view family) {
  const auto found = std::find_if(std::begin(kConverters), std::end(kConverters),
                                  [&](const auto& row) { return row.family == family; });
  return found == std::end(kConverters) ? nullptr : found;
}

}  // namespace shard
