#include "libshard/refit/node_top_k.h"

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"

namespace moepack {

Result<uint32_t> NodeTopK(const std::string& where, const RefitRecord& record) {
  const auto found = record.parameters.find(kNodeTopK);
  if (found == record.parameters.end()) return 0u;
  const std::optional<uint64_t> value = ParseUint(found->second);
  if (value && *value <= kMaxExpertsPerLayer) return static_cast<uint32_t>(*value);
  return Error{Code::kCorrupt,
               Cat(where, ": refit: parameters: ", kNodeTopK, ": expected a number up to ",
                   kMaxExpertsPerLayer, ", found ", Quoted(found->second))};
}

}  // namespace moepack
