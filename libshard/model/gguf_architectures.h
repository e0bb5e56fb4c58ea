// The architectures with experts that stock llama.cpp has, one row each, in the file of the family
// that brought it (libshard/families/). A row says what llama.cpp's code does regardless of the
// file's keys (v0.5.0, src/llama-arch.cpp for the names, src/models for what the graphs do).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/model/family.h"
#include "libshard/model/routing.h"

namespace moepack {

// Models that llama.cpp recognizes by their size, because no key tells them apart.
struct ModelShape {
  uint64_t blocks = 0;
  uint64_t vocabulary = 0;  // 0: any
};
bool IsAmong(std::span<const ModelShape> shapes, uint64_t blocks, uint64_t vocabulary);

// How llama.cpp's graph of an architecture routes. What no key states is built into the graph.
struct GraphRouting {
  Gating gating;                   // built in, or the default for an absent key
  bool normalize;                  // the same
  bool reads_gating = false;       // expert_gating_func
  bool needs_gating = false;       // the process aborts without that key
  bool reads_weights = false;      // expert_weights_norm and expert_weights_scale
  bool writes_false_norm = false;  // conversion also writes expert_weights_norm if it is false
  bool omits_unit_scale = false;   // conversion leaves out an expert_weights_scale of 1
  std::span<const ModelShape> sigmoid = {};  // models that use kSigmoid if the key is absent
};

// Attention over a window that is built in: every layer has it but the last of each `period`, or
// the first.
struct BuiltInWindow {
  uint64_t period;
  uint32_t tokens;  // where neither a key nor a config says otherwise; 0: there is no window then
  bool reads_key;   // attention.sliding_window
  bool full_first = false;
  bool IsFull(uint64_t layer) const { return (full_first ? layer : layer + 1) % period == 0; }
};

struct GgufArchitecture {
  std::string_view name;  // general.architecture
  // No value: the keys decide, with softmax as the default.
  std::optional<GraphRouting> routing = {};
  // A missing expert_feed_forward_length means feed_forward_length / expert_used_count.
  bool derives_width = false;
  // With this many experts queries and keys have no norm; with any other number they have one. 0:
  // the number of experts does not matter.
  uint64_t experts_without_norm = 0;
  // Models whose queries are projected directly, whatever q_lora_rank says.
  std::span<const ModelShape> direct_queries = {};
  std::optional<BuiltInWindow> window = {};
  // Without attention.recurrent_layers and full_attention_interval, all layers but every such one
  // have linear attention. 0: none has.
  uint32_t full_interval = 0;
  // A layer is attention, a recurrence or a feed-forward part, and only the last has a width in
  // feed_forward_length.
  bool single_parts = false;
  // The loader asks for the tensors of blocks for multi-token prediction that the keys announce.
  bool needs_mtp = false;
  CardConvention cards = CardConvention::kAll;
};

// Returns null for a general.architecture for which llama.cpp v0.5.0 loads no experts. Such a file
// is cut by its keys and the names of its tensors alone.
const GgufArchitecture* FindArchitecture(std::string_view name);
std::vector<std::string_view> ArchitectureNames();
inline bool IsMoeArchitecture(std::string_view name) { return FindArchitecture(name) != nullptr; }

// Whether llama.cpp refuses a file without the blocks for multi-token prediction that its keys
// announce. True where it is not known: rows without routing, and other architectures.
bool NeedsMtp(std::string_view architecture);
// GgufArchitecture::single_parts; false for an architecture that is not known.
bool HasSingleParts(std::string_view architecture);

// What is known of an architecture that is not in the table: "an architecture of ik_llama.cpp", or
// the closest name in it; "" if nothing is.
std::string DescribeUnknownArchitecture(std::string_view name);

}  // namespace moepack
