// A model of names and shapes alone, for tests of decisions made before any byte is read.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/model.h"

namespace moepack {

class ModelForTest {
 public:
  explicit ModelForTest(ModelConfig config = {}) { parts_.config = std::move(config); }

  ModelForTest& Root(const std::string& root) {
    root_ = root;
    return *this;
  }
  ModelForTest& ConfigPath(const std::string& path) {
    parts_.config_path = path;
    parts_.config_text = ReadTextFile(path, kMaxConfigBytes).value();
    parts_.has_config = true;
    return *this;
  }
  // With the routing of the known family of that name.
  ModelForTest& Family(const std::string& name) {
    family_.name = name;
    for (const moepack::Family& known : AllFamilies()) {
      if (known.name != name) continue;
      family_.routing = known.routing;
      family_.routing_exceptions = known.routing_exceptions;
    }
    return *this;
  }
  ModelForTest& Layer(const MoeLayer& layer) {
    parts_.layers.push_back(layer);
    return *this;
  }
  // `count` equal layers from 0.
  ModelForTest& Layers(uint32_t count, uint32_t experts, uint32_t top_k, uint64_t bytes = 10) {
    for (uint32_t layer = 0; layer < count; ++layer) Layer({layer, experts, top_k, bytes, false});
    return *this;
  }
  // As from an index whose shards are absent.
  ModelForTest& NamesOnly() {
    names_only_ = true;
    return *this;
  }
  // `kind` gives layer, leaf and mtp; the part is that of the rule.
  ModelForTest& Tensor(const TensorRule& rule, ModelTensor kind, const std::string& dtype,
                       const std::vector<uint64_t>& shape) {
    TensorEntry entry;
    entry.name = "tensor" + std::to_string(entries_.size());
    entry.dtype = dtype;
    entry.format = quant::FindSafetensorsFormat(dtype);
    entry.shape = shape;
    entry.bytes = entry.format->BytesFor(entry.Elements()).value();
    kind.index = static_cast<uint32_t>(entries_.size());
    kind.part = rule.part;
    family_.rules.push_back(rule);
    entries_.push_back(entry);
    parts_.tensors.push_back(kind);
    return *this;
  }

  MoeModel Build() const {
    ModelParts parts = parts_;
    parts.checkpoint = names_only_ ? IndexAlone() : PromisedOnly();
    // The family owns the rules, so pointers to them are set once it has stopped growing.
    parts.family = std::make_shared<const moepack::Family>(family_);
    parts.routing = ResolveRouting(family_, parts.config);
    for (size_t i = 0; i < parts.tensors.size(); ++i) {
      parts.tensors[i].rule = &parts.family->rules[i];
    }
    return MoeModel(std::move(parts));
  }

 private:
  Checkpoint PromisedOnly() const {
    const Source source{root_, std::make_shared<const MemoryTree>(root_), ""};
    return Checkpoint::Promised(source, "config.json", entries_).value();
  }
  Checkpoint IndexAlone() const {
    constexpr const char* kIndex = "model.safetensors.index.json";
    std::string names;
    for (const TensorEntry& entry : entries_) {
      names += Cat(names.empty() ? "" : ", ", Quoted(entry.name), ": \"model.safetensors\"");
    }
    const auto tree = std::make_shared<MemoryTree>(root_);
    tree->Add(kIndex, Cat("{\"weight_map\": {", names, "}}"));
    return Checkpoint::Open({root_, tree, kIndex}).value();
  }

  std::string root_ = "model";
  moepack::Family family_;
  std::vector<TensorEntry> entries_;
  ModelParts parts_;
  bool names_only_ = false;
};

}  // namespace moepack
