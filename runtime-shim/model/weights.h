// A model's weights in host memory, whatever they were loaded from. Names are those of GGUF, and
// sets of experts are separate from the trunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"
#include "quant/format.h"
#include "runtime-shim/executor/tensor_bytes.h"

namespace moepack::runtime {

// A tensor with llama.cpp's name. As in GgufTensor, the shape has the slowest dimension first, and
// the expert axis is axis 0. Its type has a decoder, or it is a table of expert ids, which are I32
// and stay on the host. Its bytes are borrowed from `memory` of the structure that lists it. They
// are aligned to four bytes, or to what blocks of the type are aligned to if that is less, and are
// in one place; only experts' matrices in a set may be in different ones.
struct HostTensor {
  std::string name;
  const quant::Format* format = nullptr;
  std::vector<uint64_t> shape;
  TensorBytes bytes;
};
// By a tensor's name: DeepSeek-V4's tables of the experts of each token id.
bool HoldsExpertIds(std::string_view name);

// Experts that were loaded together: those of a group, of an overlay, or of a whole model.
struct ExpertSet {
  std::string label;  // "group 1", "overlay generalists-1", "model"
  std::optional<uint32_t> group;
  bool overlay = false;
  LayerExperts experts_by_layer;    // ids in the order of axis 0 of the layer's tensors
  std::vector<HostTensor> tensors;  // blk.N.ffn_{gate,up,down,gate_up}_exps.{weight,bias}
  // Whole routers, with biases, of the layers in which a refit gave the set its own rows. The rows
  // of all other experts are the trunk's.
  std::vector<HostTensor> routers;
  std::vector<std::shared_ptr<const void>> memory;  // mappings and buffers of the tensors
  uint64_t bytes() const;
};

// Experts that stay in the source and are read from there one layer at a time.
class LaterExperts {
 public:
  virtual ~LaterExperts() = default;
  // Reads all experts of a layer; no tensors for a layer without experts. Errors are those of
  // LoadWeights.
  virtual Result<ExpertSet> Load(uint32_t layer) const = 0;
  // What Load returns, for all layers and without bytes.
  std::vector<HostTensor> tensors;
  // The inner width of the widest expert; 0 without any.
  uint64_t widest() const;
};

// The size of one part, for the report on a load.
struct LoadedPart {
  std::string label;  // "trunk", "routers", "group 1", ...
  uint64_t tensors = 0, bytes = 0;
  // the part of the bytes that is mapped from files; the rest was copied or decoded
  uint64_t mapped = 0;
};

struct Weights {
  std::string path;       // what was loaded, for messages
  GgufMetadata metadata;  // of the whole model
  // Why the metadata has no tokenizer: that of a checkpoint is missing or not supported.
  std::optional<Error> no_tokenizer;
  std::vector<HostTensor> trunk;  // everything but routed experts; routers are whole
  std::vector<ExpertSet> sets;
  std::shared_ptr<const LaterExperts> later;  // null: the sets have all experts that exist
  LayerCounts moe_layers;                     // layer -> number of experts in its router
  // A distribution's plan, reduced to the loaded overlay, and the versions that a node reports.
  std::optional<Plan> plan;
  std::string model_version, shard_version, replica_version, refit_version;
  std::vector<LoadedPart> parts;
  std::vector<std::string> notes;  // "2 blocks for multi-token prediction are not run"
  std::vector<std::shared_ptr<const void>> memory;  // mappings and buffers of the trunk

  const HostTensor* FindTrunk(std::string_view name) const;
  const ExpertSet* FindGroup(uint32_t group) const;
  const ExpertSet* FindOverlay() const;
};

struct LoadOptions {
  // For a distribution, the groups to load, or all if empty. kNotFound if files of one are missing.
  std::vector<uint32_t> groups;
  bool overlay = true;
  // "": the newest that the manifest names, or the one that was pulled (OverlayByDefault)
  std::string overlay_version;
  // What to do about a file that was not pulled (NotPulledHint); "": what OpenBundleFile says.
  std::string not_pulled_hint;
  // compare the digests of what is loaded before anything runs (--no-verify): XXH3-128 of a
  // distribution's tensors, SHA-256 of its other files and of a node's
  bool verify = true;
  bool verify_files = false;  // SHA-256 of every file (--verify-files)
  uint32_t jobs = 0;
  // leave the experts of a model that is not split in the source (Weights::later)
  bool experts_later = false;
  ModelOptions model;  // --family, --config
  // Counts the bytes of the current step: reading for digests, then copying and decoding. May be
  // empty.
  OnProgress progress;
};

// Loads a distribution (GGUF or safetensors), an assembled node, a GGUF (file, split set,
// directory) or a Hugging Face checkpoint. Only headers, digests and what must be decoded are read
// now; what need not be decoded is mapped. Types are those of the files; for checkpoints, those of
// a conversion with the profile "exact".
//   kNotFound         a group, overlay or file that is not there
//   kMismatch         a digest, version or header that is not the manifest's
//   kUnsupported      families without conversion, types without a decoder
// A checkpoint without a tokenizer that can be converted is loaded, with a note, for token ids.
//   kInvalidArgument  groups or an overlay of a model that is not split, or beyond its plan
Result<std::shared_ptr<const Weights>> LoadWeights(const moepack::Source& source,
                                                   const LoadOptions& options);
// The same for a path on this machine.
Result<std::shared_ptr<const Weights>> LoadWeights(const std::string& source,
                                                   const LoadOptions& options);

// Returns what a node of `group` may pick in each layer according to the plan: with the loaded
// overlay, or without any if `overlay` is false. Without a plan, and without a group, it is
// everything that is loaded.
LayerExperts EligibleExperts(const Weights& weights, std::optional<uint32_t> group, bool overlay);

}  // namespace moepack::runtime
