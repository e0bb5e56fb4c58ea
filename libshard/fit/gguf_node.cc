#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_cut.h"
#include "libshard/fit/node_layout.h"
#include "libshard/format/gguf.h"
#include "libshard/format/gguf_set.h"
#include "libshard/pack/slice_gguf.h"

namespace moepack {
namespace {

// Head, trunk and experts, as `assemble` writes them.
constexpr uint64_t kNodeFiles = 3;

// What the runtime needs from the node's own file: the experts, and their rows and bias in the
// router.
bool GoesWithExperts(const GgufTensor& tensor) {
  return tensor.expert_count > 0 && (tensor.part == Part::kExpert || tensor.part == Part::kRouter);
}

GgufMetadata SetMetadata(const GgufModel& model, uint16_t number) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String(model.architecture()));
  metadata.Set(kSplitNoKey, GgufValue::U16(number));
  return metadata;
}

}  // namespace

Result<uint32_t> NodeExpertCount(const Plan& plan, size_t group) {
  const uint32_t first = plan.layers.begin()->first;
  const size_t count = Eligible(plan, group, first).size();
  for (const auto& [layer, unused] : plan.layers) {
    const size_t eligible = Eligible(plan, group, layer).size();
    if (eligible == count) continue;
    return Error{Code::kUnsupported,
                 Cat("group ", group, ": expected as many eligible experts in layer ", layer,
                     " as in layer ", first, " (", count, "), found ", eligible),
                 "a model has one expert count for all layers: plan with --uniform"};
  }
  return static_cast<uint32_t>(count);
}

Result<std::vector<OutputFile>> LayOutGgufNode(const GgufNodeInput& input, const Plan& plan,
                                               size_t group, OutputFile trunk) {
  ExpertCut cut;
  SHARD_TRY(cut.expert_count, NodeExpertCount(plan, group));
  for (const auto& [layer, unused] : plan.layers) {
    cut.eligible[layer] = Eligible(plan, group, layer);
  }
  OutputFile experts;
  experts.role = Role::kGroup;
  for (const GgufTensor& tensor : input.model.tensors) {
    if (!GoesWithExperts(tensor)) continue;
    const ExpertIds& ids = IdsOf(cut.eligible, *tensor.layer);
    if (ids.empty()) continue;
    SHARD_TRY(OutputTensor rows, EncodeExperts(tensor, tensor.type, ids));
    experts.tensors.push_back(std::move(rows));
  }
  LayOutGguf(experts, SetMetadata(input.model, kNodeFiles - 1), input.alignment);

  OutputFile head;
  head.role = Role::kHead;
  GgufMetadata metadata = input.model.metadata;
  std::vector<std::string> notes;
  SHARD_CHECK(CutMetadata(input.where, cut, metadata, notes));
  SetSplitKeys(0, kNodeFiles, trunk.tensors.size() + experts.tensors.size(), metadata);
  LayOutGguf(head, metadata, input.alignment);

  std::vector<OutputFile> files;
  files.push_back(std::move(head));
  files.push_back(std::move(trunk));
  files.push_back(std::move(experts));
  const std::string name = "node";
  for (uint32_t i = 0; i < kNodeFiles; ++i) {
    files[i].path = GgufPartFileName(name, i, kNodeFiles);
  }
  return files;
}

}  // namespace moepack
