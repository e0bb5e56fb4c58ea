// ParseIds: "0-42,97", as typed by users and as written in manifests.
#include "libshard/base/text/expert_ids.h"

#include "tests/fuzz/target.h"

namespace expert_ids_target {

constexpr const char* kWhere = "--experts";
constexpr uint32_t kLimit = 511;

std::vector<std::string> Seeds() {
  return {"", "0", "0-42,97", "511", " 3 , 5-7 ,0", "0-511", "1,3,5,7,9,11-13"};
}

std::string Check(std::string_view input) {
  const auto ids = moepack::ParseIds(kWhere, input, kLimit);
  if (!ids) return fuzz::ErrorProblem(ids.error(), kWhere);
  for (size_t i = 0; i < ids->size(); ++i) {
    if ((*ids)[i] > kLimit) return "an id over the limit";
    if (i > 0 && (*ids)[i] <= (*ids)[i - 1]) return "ids that do not ascend";
  }
  const std::string text = moepack::FormatIds(*ids);
  const auto again = moepack::ParseIds(kWhere, text, kLimit);
  if (!again || *again != *ids) return moepack::Cat("not the same ids after ", text);
  return "";
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000};

}  // namespace expert_ids_target

FUZZ_TARGET(FuzzExpertIds, expert_ids_target::kTarget)
