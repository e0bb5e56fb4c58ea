// The bytes of a distribution and of its nodes before anything is written, from headers alone: the
// files that `build` lays out for a plan, and those that `assemble` makes from them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/output_file.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"

namespace moepack {

// The files of a node that hold tensors or metadata of the model. A tokenizer in JSON, an index and
// moepack_node.json are not counted: a runtime reads them once and keeps little of them in memory.
struct NodeBytes {
  uint64_t head = 0;     // GGUF: the node's own metadata; 0 for safetensors
  uint64_t trunk = 0;    // for safetensors including the node's router rows
  uint64_t experts = 0;  // of group and overlay together; for GGUF including their router rows
  uint64_t total() const { return head + trunk + experts; }
};

// What a layer adds to a node, without container overhead.
struct LayerBytes {
  uint64_t trunk = 0;   // attention, norms, shared experts; in safetensors also the whole router
  uint64_t expert = 0;  // one routed expert; in GGUF with its row of the router
};
// The tensors of a model by place. Tensors outside all layers are before the first one (the
// embedding, other modalities) or after the last one (the last norm, the head).
struct ModelBytes {
  uint64_t before = 0, after = 0;
  uint64_t embedding = 0;  // included in `before`
  bool tied = false;       // there is no head: the embedding also produces the logits
  std::map<uint32_t, LayerBytes> layers;
};

// Lays out files of one model in one format. It borrows the model.
class NodeSizer {
 public:
  // `gguf` says which types GGUF bundles get; none: safetensors bundles, or for a GGUF source
  // bundles with its own types. kUnsupported if the model has no such form; kNotFound for a
  // names-only checkpoint. If a config alone has no tokenizer, the GGUF has none either, and
  // notes() says so.
  static Result<NodeSizer> Make(const MoeModel& model, std::optional<QuantizeOptions> gguf);

  bool is_gguf() const { return typed_ != nullptr; }
  const std::vector<std::string>& notes() const { return notes_; }

  // The plan without the layers that the files leave out (PlanFor, slice_gguf.h).
  Plan PlanOf(const Plan& plan) const;
  // The tensor files that `build` writes for the plan.
  Result<std::vector<OutputFile>> BundleFiles(const Plan& plan) const;
  // The weight files of one node as `assemble` writes them. kUnsupported if layers differ in their
  // number of eligible experts, and for models that assemble refuses.
  Result<std::vector<OutputFile>> NodeFiles(const Plan& plan, size_t group) const;
  Result<NodeBytes> Node(const Plan& plan, size_t group) const;
  // The same for a node that may pick from any `eligible` experts of every layer.
  // REQUIRES: eligible is at least 1 and at most the experts of every layer.
  Result<NodeBytes> NodeOf(uint32_t eligible) const;

  ModelBytes Layers() const;

 private:
  explicit NodeSizer(const MoeModel& model) : model_(&model) {}
  Status Convert(QuantizeOptions options);
  Result<std::vector<OutputFile>> GgufNode(const Plan& plan, size_t group) const;

  const MoeModel* model_;
  std::shared_ptr<const TypedGguf> typed_;  // null: safetensors
  uint64_t alignment_ = kGgufDefaultAlignment;
  std::vector<std::string> notes_;
};

}  // namespace moepack
