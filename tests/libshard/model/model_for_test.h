// A model of names and shapes alone, for tests of what is decided before any byte is read.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/file.h"
#include "libshard/base/memory_tree.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/model.h"

namespace moepack {

class ModelForTest {
 public:
  explicit ModelForTest(ModelConfig config = {}) {
    model_.config_ = std::move(config);
    Root("model");
  }

  ModelForTest& Root(const std::string& root) {
    model_.checkpoint_.tree_ = std::make_shared<const MemoryTree>(root);
    return *this;
  }
  ModelForTest& ConfigPath(const std::string& path) {
    model_.config_path_ = path;
    model_.config_text_ = ReadTextFile(path, kMaxConfigBytes).value();
    model_.has_config_ = true;
    return *this;
  }
  // With the routing of a family that we know by that name.
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
    model_.layers_.push_back(layer);
    return *this;
  }
  // `count` equal layers from 0.
  ModelForTest& Layers(uint32_t count, uint32_t experts, uint32_t top_k, uint64_t bytes = 10) {
    for (uint32_t layer = 0; layer < count; ++layer) Layer({layer, experts, top_k, bytes, false});
    return *this;
  }
  ModelForTest& NamesOnly() {
    model_.checkpoint_.names_only_ = true;
    return *this;
  }
  // `kind` gives layer, leaf and mtp; the part is that of the rule.
  ModelForTest& Tensor(const TensorRule& rule, ModelTensor kind, const std::string& dtype,
                       const std::vector<uint64_t>& shape) {
    TensorEntry entry;
    entry.name = "tensor" + std::to_string(model_.tensors_.size());
    entry.dtype = dtype;
    entry.format = quant::FindSafetensorsFormat(dtype);
    entry.shape = shape;
    entry.bytes = entry.format->BytesFor(entry.Elements()).value();
    kind.index = static_cast<uint32_t>(model_.tensors_.size());
    kind.part = rule.part;
    family_.rules.push_back(rule);
    model_.checkpoint_.tensors_.push_back(entry);
    model_.tensors_.push_back(kind);
    return *this;
  }

  MoeModel Build() {
    // Rules are borrowed from the family, so they are pointed at once it has stopped growing.
    model_.family_ = std::make_shared<const moepack::Family>(family_);
    model_.routing_ = ResolveRouting(family_, model_.config_);
    for (size_t i = 0; i < model_.tensors_.size(); ++i)
      model_.tensors_[i].rule = &model_.family_->rules[i];
    return model_;
  }

 private:
  MoeModel model_;
  moepack::Family family_;
};

}  // namespace moepack
