// How large the parts of distributions would be, to the byte, without describing their files:
// list-tensors --summary needs dozens of them for a model with perhaps a hundred thousand tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/plan/plan.h"

namespace moepack {

// In bytes. A node has the trunk, with the head for GGUF, and one group; routers are in the groups.
struct PartSizes {
  uint64_t trunk = 0;
  std::vector<uint64_t> groups;
};

// The sizes of what SliceSafetensors returns for plans of one model without an overlay.
class SafetensorsSizes {
 public:
  explicit SafetensorsSizes(const MoeModel& model);
  // Errors are those of SliceSafetensors. REQUIRES: the plan is for the model.
  Result<PartSizes> Of(const Plan& plan) const;

 private:
  const MoeModel& model_;
  std::vector<uint64_t> entry_bytes_;  // of whole tensors, by index
};

// The sizes of what SliceGguf returns for plans without an overlay.
class GgufSizes {
 public:
  // Errors are those of SliceGguf. Borrows `input`.
  static Result<GgufSizes> Make(const GgufSlicing& input);
  // REQUIRES: the plan is one that PlanFor made for the model.
  PartSizes Of(const Plan& plan) const;

 private:
  struct Tensor {
    uint64_t entry_bytes = 0, bytes = 0;  // in the header, and of its data
    uint32_t layer = 0, expert_count = 0;
  };
  explicit GgufSizes(const GgufSlicing& input) : input_(input) {}
  Status Add(const GgufTensor& tensor);

  const GgufSlicing& input_;
  uint64_t head_ = 0;
  std::vector<Tensor> trunk_, experts_;  // in the model's order
};

}  // namespace moepack
