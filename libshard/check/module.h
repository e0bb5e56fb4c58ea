// Names the module that a tensor belongs to, by the last component of its name. All checks share
// one table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moepack {

enum class Module : uint8_t {
  kGate,     // [width, hidden]
  kUp,       // [width, hidden]
  kFusedIn,  // gate above up
  kDown,     // [hidden, width]
  kQuery,
  kKey,  // keys and values
  kAttentionOut,
  kQueryA,
  kQueryB,
  kLatentA,
  kLatentB,
  kQueryANorm,
  kLatentNorm,
  kNorm,  // one number per hidden channel
  kVocabulary,
  kJoin,  // [hidden, 2 * hidden]: hidden state and embedding of the next token
};

// Finds the module of a component such as "q_proj" or, in GGUF, "ffn_gate_shexp", in all families.
std::optional<Module> ModuleNamed(std::string_view name);
// Finds the module of a tensor. For experts the role of their row decides, because their
// projections have many names.
std::optional<Module> ModuleOf(std::string_view role, std::string_view name);

}  // namespace moepack
