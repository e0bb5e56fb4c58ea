// Sets of expert ids, per layer, and their spelling "0-42,97".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

// Ascending, no duplicates.
using ExpertIds = std::vector<uint32_t>;
// Layer -> ids. A layer without ids is absent or empty; both mean the same.
using LayerExperts = std::map<uint32_t, ExpertIds>;

// "0-42,97"; "" for no ids.
std::string FormatIds(const ExpertIds& ids);
// What a message expects where only `ids` are possible: "7", "one of 0-2,5".
std::string FormatChoice(const ExpertIds& ids);
// Accepts single ids and ranges in any order, with spaces around commas; refuses duplicates,
// reversed ranges and more than `limit` as an id. `where` names the place in errors.
Result<ExpertIds> ParseIds(const std::string& where, std::string_view text, uint32_t limit);

ExpertIds Union(const ExpertIds& a, const ExpertIds& b);
ExpertIds Difference(const ExpertIds& a, const ExpertIds& b);
bool Contains(const ExpertIds& ids, uint32_t id);
const ExpertIds& IdsOf(const LayerExperts& experts_by_layer, uint32_t layer);
uint64_t CountIds(const LayerExperts& experts_by_layer);

// Layer number -> number of experts, for every MoE layer of the model.
using LayerCounts = std::map<uint32_t, uint32_t>;

// {"*": "0-5"} if all layers of `layers` hold the same ids, otherwise one key per non-empty layer;
// {} for none.
Json LayerExpertsToJson(const LayerExperts& experts_by_layer, const LayerCounts& layers);
// "*" stands for every layer that has no key of its own. Refuses layers without experts and ids out
// of range.
Result<LayerExperts> LayerExpertsFromJson(const std::string& where, const Json& value,
                                          const LayerCounts& layers);

// Expert ids for places where there are almost never any, stored in eight bytes: a large model has
// hundreds of thousands of tensors.

class FewExpertIds {
 public:
  FewExpertIds() = default;
  FewExpertIds(ExpertIds ids)
      : ids_(ids.empty() ? nullptr : std::make_unique<const ExpertIds>(std::move(ids))) {}
  FewExpertIds(const FewExpertIds& other) : FewExpertIds(ExpertIds(other.ids())) {}
  FewExpertIds(FewExpertIds&&) noexcept = default;
  FewExpertIds& operator=(FewExpertIds other) noexcept {
    ids_ = std::move(other.ids_);
    return *this;
  }

  bool empty() const { return ids_ == nullptr; }
  const ExpertIds& ids() const {
    static const ExpertIds kNone;
    return ids_ ? *ids_ : kNone;
  }

 private:
  std::unique_ptr<const ExpertIds> ids_;  // null: none
};

}  // namespace moepack
