// The one table of the types with which llama.cpp reads metadata keys. It refuses a file whose key
// has another type, such as an i32 where it reads a u32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack {

enum class GgufKeyKind : uint8_t {
  kCount,   // u32; in an array u32, i32 or bool
  kNumber,  // f32
  kFlag,    // bool
  kWide     // u64, in an array
};

struct GgufKeyType {
  // without the architecture and its dot, unless the key has none ("tokenizer.ggml.scores")
  std::string_view name;
  GgufKeyKind kind;
  bool per_layer = false;  // may also be an array with an element for each block
};

// Null for a key that llama.cpp reads as text, or not at all.
const GgufKeyType* FindGgufKeyType(std::string_view architecture, std::string_view key);

// Gives every key in the table the type of its row, if that type can hold the value. Returns
// warnings: which keys had other types, and which keep one that llama.cpp refuses. `where` names
// the file in them.
std::vector<std::string> CorrectGgufTypes(const std::string& where, GgufMetadata& metadata);

// kCorrupt if a key has a type that llama.cpp refuses. After CorrectGgufTypes that is a key whose
// value does not fit the type that llama.cpp reads.
Status CheckGgufTypes(const std::string& where, const GgufMetadata& metadata);

// Shortens every array that has an element for each of `before` blocks to the first `after`.
// REQUIRES: after <= before.
void CutGgufBlocks(uint64_t before, uint64_t after, GgufMetadata& metadata);

}  // namespace moepack
