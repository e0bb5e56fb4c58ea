// Reads the routing of a GGUF: what llama.cpp's graph for its architecture does with its keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/routing.h"

namespace moepack {

// Returns the key's value if the graph reads a key, otherwise what is built into the graph. For
// architectures without a row in gguf_architectures.cc only the keys count, and `warnings` says
// what they leave open. `where` names the file. kCorrupt for keys with the wrong type or an absurd
// value; kUnsupported for a gating function that we do not know, even if the graph does not read
// it.
Result<StatedRouting> ReadGgufRouting(const std::string& where, const GgufMetadata& metadata,
                                      std::vector<std::string>& warnings);

// The same as a complete Routing, but without the numbers of experts. Whatever is left open becomes
// softmax with normalised weights.
Result<Routing> RoutingOfGguf(const std::string& where, const GgufMetadata& metadata);

// True for a key about experts (named without the architecture) that means the same for any number
// of them.
bool IsKnownExpertKey(std::string_view name);
// Returns kUnsupported for any other key with "expert" in its name, because it may say how experts
// are chosen.
Status CheckExpertKeys(const std::string& where, const GgufMetadata& metadata);

}  // namespace moepack
