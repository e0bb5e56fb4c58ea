// What a check of a checkpoint found. Each finding is one disagreement between config and tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/expert_ids.h"

namespace moepack {

enum class FindingKind : uint8_t { kConfig, kMissing, kExtra, kMisshapen, kConversion };
std::string_view FindingKindName(FindingKind kind);  // "config", "missing", ...

struct CheckFinding {
  FindingKind kind = FindingKind::kConfig;
  std::string what;  // a field of the config, a tensor in quotes, or a place: "layer 3: router"; of
                     // kConversion all there is to say
  std::string expected, found;
  bool operator==(const CheckFinding&) const = default;
};

// "missing: layer 3: router: expected one, found none"
std::string FindingText(const CheckFinding& finding);

// "layer 3", "layers 3-5,7".
std::string LayersText(const ExpertIds& layers);

}  // namespace moepack
