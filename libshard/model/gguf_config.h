// Reads the metadata of a GGUF model as a ModelConfig.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/config.h"

namespace moepack {

// `where` names the file in errors. Routing is that of llama.cpp's graph for the architecture: the
// key if the graph reads one, otherwise what is built in (for architectures we do not know, softmax
// with normalised weights and a warning). kUnsupported if there are no routed experts or different
// numbers per layer; kCorrupt for keys that are missing or have the wrong type or an absurd value.
Result<ModelConfig> ReadGgufConfig(const std::string& where, const GgufMetadata& metadata,
                                   std::vector<std::string>& warnings);

}  // namespace moepack
