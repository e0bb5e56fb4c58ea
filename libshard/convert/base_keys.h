// Makes the keys that every architecture takes from config.json: sizes, and how the router chooses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/routing.h"

namespace moepack {

// Writes keys that begin with the architecture's name.

// Writes "<architecture>.<name>" keys with exactly the type that the runtime reads, because it
// refuses a file whose u32 is an i32 or whose f32 is an f64. Borrows the metadata.
class ArchKeys {
 public:
  ArchKeys(std::string_view architecture, GgufMetadata& metadata)
      : architecture_(architecture), metadata_(metadata) {}

  const std::string& architecture() const { return architecture_; }

  void U32(std::string_view name, uint32_t value) { Set(name, GgufValue::U32(value)); }
  void F32(std::string_view name, float value) { Set(name, GgufValue::F32(value)); }
  void Bool(std::string_view name, bool value) { Set(name, GgufValue::Bool(value)); }
  void String(std::string_view name, std::string_view text) { Set(name, GgufValue::String(text)); }
  void I32s(std::string_view name, std::span<const int32_t> values) {
    Set(name, GgufValue::I32s(values));
  }
  void U64s(std::string_view name, std::span<const uint64_t> values) {
    Set(name, GgufValue::U64s(values));
  }
  void F32s(std::string_view name, std::span<const float> values) {
    Set(name, GgufValue::F32s(values));
  }
  void Bools(std::string_view name, const std::vector<bool>& values) {
    Set(name, GgufValue::Bools(values));
  }

 private:
  void Set(std::string_view name, GgufValue value) {
    metadata_.Set(architecture_ + "." + std::string(name), std::move(value));
  }
  std::string architecture_;
  GgufMetadata& metadata_;
};

// Writes the routing of a model as keys of its GGUF.

// The routing that AddBaseKeys and the functions below write.
struct RoutingToWrite {
  Routing routing;       // the routing of the model
  StatedRouting stated;  // the part that config.json states
};

// Adds expert_group_count and expert_group_used_count if the config or family has groups.
void AddGroupKeys(const RoutingToWrite& model, ArchKeys& keys);
// Adds expert_gating_func if the config states the function, or if the graph would assume softmax
// without the key.
void AddGatingKey(const RoutingToWrite& model, ArchKeys& keys);
// Adds expert_weights_scale and expert_weights_norm for architectures whose graphs read them.
void AddWeightKeys(const Routing& routing, ArchKeys& keys);

// Returns kUnsupported if the runtime's graph, given `metadata`, would select or weigh experts
// differently from the model. A different score of routing groups is only a warning.
Status CheckGraphRouting(const HfConfig& config, const Routing& model, const GgufMetadata& metadata,
                         std::vector<std::string>& warnings);

inline constexpr const char* kNoGgufHint =
    "GGUF cannot hold this model; safetensors output (--format safetensors) still works";

// kUnsupported: `what` the config says cannot be written as a GGUF.
Error CannotHold(const HfConfig& config, const std::string& what);

// The numbers of a model that more than one step of a conversion needs.
struct HfShape {
  uint32_t layers = 0;  // decoder layers
  uint32_t hidden = 0, heads = 0, kv_heads = 0;
  uint32_t head_size = 0;  // head_dim, or hidden / heads
  uint32_t vocabulary = 0;
  uint32_t mtp_layers = 0;  // blocks for multi-token prediction that the GGUF keeps
};
Result<HfShape> ReadShape(const HfConfig& config);

// Adds a key with the epsilon of norms; kCorrupt unless it is above 0.
Status AddEpsilon(const HfConfig& config, ConfigKeys fields, std::string_view key, ArchKeys& keys);

// Keys that a family writes itself, because they are not the same for all models.
struct OwnKeys {
  bool epsilon = false;       // attention.layer_norm_rms_epsilon
  bool used_experts = false;  // expert_used_count
};

// Adds <arch>.block_count, context_length, embedding_length, ... expert_gating_func. `blocks`
// includes the blocks for multi-token prediction that are kept.
Status AddBaseKeys(const HfConfig& config, const RoutingToWrite& routing, uint32_t blocks,
                   ArchKeys& keys, const OwnKeys& own = {});

// kUnsupported unless the field is one of `words`, the names of the only one that the runtime has,
// or absent.
Status CheckWord(const HfConfig& config, ConfigKeys keys,
                 const std::vector<std::string_view>& words);

// Checks what llama.cpp asserts about experts and routing groups when it loads a file with the keys
// in `metadata`. kUnsupported, because a failed assertion aborts the process.
Status CheckExpertCounts(const HfConfig& config, std::string_view architecture,
                         const GgufMetadata& metadata);

// Returns kUnsupported for heads whose size is not hidden size / heads, for architectures whose
// runtime supports no other size.
Status CheckSquareHeads(const HfConfig& config, const HfShape& shape);

// How many leading values of a head are rotated: partial_rotary_factor of `head_size`, or all of
// them without it.
Result<uint32_t> RotatedPart(const HfConfig& config, uint32_t head_size);
// The same where the config may give the number itself (rotary_dim, MiniMax).
Result<uint32_t> RotatedSize(const HfConfig& config, uint32_t head_size);

}  // namespace moepack
