#include "libshard/check/finding.h"

#include <array>

#include "libshard/base/text/text.h"

namespace moepack {

std::string_view FindingKindName(FindingKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"config", "missing", "extra", "misshapen",
                                                      "conversion"};
  return kNames[static_cast<size_t>(kind)];
}

std::string FindingText(const CheckFinding& finding) {
  if (finding.kind == FindingKind::kConversion) return Cat("conversion: ", finding.what);
  return Cat(FindingKindName(finding.kind), ": ", finding.what, ": expected ", finding.expected,
             ", found ", finding.found);
}

std::string LayersText(const ExpertIds& layers) {
  return Cat(layers.size() == 1 ? "layer " : "layers ", FormatIds(layers));
}

}  // namespace moepack
