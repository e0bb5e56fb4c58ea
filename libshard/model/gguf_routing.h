// The routing of a GGUF: what llama.cpp's graph of its architecture does with its keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/routing.h"

namespace moepack {

// A key where the graph reads one, else what it has built in. Of architectures without a row in
// gguf_architectures.cc only what the keys say; `warnings` tells where that leaves something open.
// `where` names the file. kCorrupt for keys of another type or absurd; kUnsupported for a gating
// function that we do not know, also where the graph does not read it.
Result<StatedRouting> ReadGgufRouting(const std::string& where, const GgufMetadata& metadata,
                                      std::vector<std::string>& warnings);

// The same as a whole: what is left open is softmax with normalised weights. Without numbers of
// experts.
Result<Routing> RoutingOfGguf(const std::string& where, const GgufMetadata& metadata);

// Names of keys (without the architecture) about experts that mean the same for any number of them.
bool IsKnownExpertKey(std::string_view name);
// kUnsupported for a key with "expert" in its name that is not one of them: it may say how experts
// are picked.
Status CheckExpertKeys(const std::string& where, const GgufMetadata& metadata);

}  // namespace moepack
