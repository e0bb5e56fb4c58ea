// The findings of a check of a checkpoint. Each is one disagreement between config and tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/text/expert_ids.h"

namespace moepack {

enum class FindingKind : uint8_t { kConfig, kMissing, kExtra, kMisshapen, kConversion };
std::string_view FindingKindName(FindingKind kind);  // "config", "missing", ...

struct CheckFinding {
  FindingKind kind = FindingKind::kConfig;
  // a field of the config, a tensor in quotes, or a place: "layer 3: router"; for kConversion the
  // whole message
  std::string what;
  std::string expected, found;
  bool operator==(const CheckFinding&) const = default;
};

// Returns text such as "missing: layer 3: router: expected one, found none".
std::string FindingText(const CheckFinding& finding);

// Returns "layer 3" or "layers 3-5,7".
std::string LayersText(const ExpertIds& layers);

}  // namespace moepack
