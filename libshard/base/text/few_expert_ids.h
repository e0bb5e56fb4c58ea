// Expert ids for places where there are almost never any, stored in eight bytes: a large model has
// hundreds of thousands of tensors.
#pragma once

#include <memory>
#include <utility>

#include "libshard/base/text/expert_ids.h"

namespace moepack {

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
