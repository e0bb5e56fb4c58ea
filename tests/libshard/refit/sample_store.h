// Refit stores for tests: the source's own experts and routers, changed or not.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/refit/refit_store.h"
#include "tests/libshard/pack/tensor_bytes.h"

namespace moepack {

// The tensors of a layer in GGUF form, as F32: "ffn_gate_exps.weight" -> values.
using LayerValues = std::map<std::string, std::vector<float>>;

inline std::map<uint32_t, LayerValues> ExpertValues(const MoeModel& model, const GgufModel& gguf) {
  std::map<uint32_t, LayerValues> layers;
  for (const GgufTensor& tensor : gguf.tensors) {
    if (!tensor.layer || tensor.expert_count == 0) continue;
    const std::string name = tensor.name.substr(tensor.name.find('.', 4) + 1);
    layers[*tensor.layer][name] = golden::ReadRows(model.checkpoint(), tensor);
  }
  return layers;
}

// Rows `ids` of values that have one row for each of `count` experts.
inline std::vector<float> ExpertRows(const LayerValues& layer, const std::string& name,
                                     uint32_t count, const ExpertIds& ids) {
  const auto found = layer.find(name);
  std::vector<float> out;
  if (found == layer.end()) return out;
  const size_t each = found->second.size() / count;
  for (const uint32_t id : ids) {
    const auto row = found->second.begin() + static_cast<std::ptrdiff_t>(id * each);
    out.insert(out.end(), row, row + static_cast<std::ptrdiff_t>(each));
  }
  return out;
}

// The width of the inputs of a layer's experts.
inline uint64_t InputsOfExperts(const GgufModel& gguf, uint32_t layer) {
  for (const GgufTensor& tensor : gguf.tensors) {
    if (tensor.name == Cat("blk.", layer, ".ffn_up_exps.weight")) return tensor.shape.back();
  }
  throw std::runtime_error("no expert has a matrix up");
}

// The result of a refit that changed nothing.
inline RefittedExperts SourceExperts(const LayerValues& layer, uint32_t count, ExpertIds ids,
                                     uint64_t hidden) {
  const auto rows = [&](const char* name) { return ExpertRows(layer, name, count, ids); };
  RefittedExperts out;
  out.gate = rows("ffn_gate_exps.weight");
  out.up = rows("ffn_up_exps.weight");
  out.down = rows("ffn_down_exps.weight");
  out.router = rows("ffn_gate_inp.weight");
  out.router_bias = rows("ffn_gate_inp.bias");
  out.selection_bias = rows("exp_probs_b.bias");
  out.gate_bias = rows("ffn_gate_exps.bias");
  out.up_bias = rows("ffn_up_exps.bias");
  out.down_bias = rows("ffn_down_exps.bias");
  out.hidden = hidden;
  out.router_width = out.router.size() / ids.size();
  out.width = out.up.size() / ids.size() / out.hidden;
  out.expert_ids = std::move(ids);
  return out;
}

inline RefitRecord SampleRecord(const MoeModel& model, const Plan& plan) {
  RefitRecord record;
  record.steps = {"ridge", "refill"};
  record.parameters = {{"lambda", "0.01"}};
  record.calibration = {{"manual.md", "prose", std::string(64, 'a'), 1234}};
  record.model = model.Version("");
  record.plan = RefitPlanDigest(plan);
  return record;
}

struct StoreOptions {
  // Changes the source's values; by default nothing changes.
  std::function<void(RefittedExperts&)> change = [](RefittedExperts&) {};
  // Whether a layer and group was accepted; by default all were.
  std::function<bool(uint32_t layer, uint32_t group)> accept = [](uint32_t, uint32_t) {
    return true;
  };
  std::function<void(RefitRecord&)> record = [](RefitRecord&) {};
  std::optional<RefitPart> part = {};  // no value: all groups
};

// A part with these groups, of which no two are twins.
inline RefitPart SamplePart(const Plan& plan, std::vector<uint32_t> groups) {
  RefitPart part{std::move(groups), {}, "none", "1.0"};
  for (uint32_t group = 0; group < plan.groups.size(); ++group) part.twins.push_back(group);
  return part;
}

// Writes a store of all layers in the GGUF form of the model. Throws if it cannot.
inline void WriteStore(const fs::path& directory, const MoeModel& model, const Plan& plan,
                       const StoreOptions& options = {}) {
  auto gguf = ToGguf(model, {});
  if (!gguf) throw std::runtime_error(gguf.error().message);
  RefitRecord record = SampleRecord(model, plan);
  options.record(record);
  auto writer = RefitStoreWriter::Open(directory, record, options.part);
  if (!writer) throw std::runtime_error(writer.error().message);
  for (const auto& [layer, values] : ExpertValues(model, *gguf)) {
    std::vector<RefitOutcome> outcomes;
    std::vector<RefittedExperts> accepted;
    for (uint32_t group = 0; group < plan.groups.size(); ++group) {
      if (options.part && !Contains(options.part->groups, group)) continue;
      RefitOutcome& outcome = outcomes.emplace_back();
      outcome.layer = layer;
      outcome.group = group;
      outcome.error_before = 0.5;
      outcome.error_after = 0.25;
      outcome.neurons_moved = 3;
      outcome.slot_tokens = {100, 200};
      const ExpertIds slots = RefitSlots(plan, group, layer);
      outcome.accepted = !slots.empty() && options.accept(layer, group);
      if (!outcome.accepted) continue;
      RefittedExperts experts = SourceExperts(values, model.FindLayer(layer)->expert_count, slots,
                                              InputsOfExperts(*gguf, layer));
      experts.layer = layer;
      experts.group = group;
      options.change(experts);
      accepted.push_back(std::move(experts));
    }
    const Status added = writer->Add(std::move(outcomes), accepted);
    if (!added) throw std::runtime_error(added.error().message);
  }
}

// A change that survives rounding: every value of experts and router.
inline void Perturb(RefittedExperts& experts) {
  for (const RefittedArray& array : RefittedArrays()) {
    float step = 0.0625f;
    for (float& value : experts.*array.values) {
      value = value * 1.25f + step;
      step = -step;
    }
  }
}

}  // namespace moepack
