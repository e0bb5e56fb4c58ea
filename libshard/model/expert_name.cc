#include "libshard/model/expert_name.h"

#include <algorithm>
#include <vector>

#include "libshard/base/text/text.h"

namespace moepack {

Result<std::string> RenumberExpert(FamilyMatcher& matcher, const std::string& name, uint32_t id) {
  std::vector<std::string> parts = Split(name, '.');
  const auto number = std::find_if(parts.rbegin(), parts.rend(), [](const std::string& part) {
    return ParseUint(part).has_value();
  });
  if (number != parts.rend()) *number = std::to_string(id);
  std::string renumbered = Join(parts, ".");
  const TensorClass before = matcher.Classify(name);
  const TensorClass after = matcher.Classify(renumbered);
  if (after.rule != nullptr && after.rule == before.rule && after.layer == before.layer &&
      after.expert == id) {
    return renumbered;
  }
  return Error{Code::kUnsupported, Cat("tensor ", Quoted(name),
                                       ": expected the expert id as the "
                                       "last number of the name, found another number there")};
}

}  // namespace moepack
