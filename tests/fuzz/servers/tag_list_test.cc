// ParseTagList: a page of a registry's tags holds nothing but tags.
#include "manifest/registry/server/tag_list.h"

#include "manifest/registry/artifact/reference.h"
#include "tests/fuzz/target.h"

namespace tag_list_target {

constexpr const char* kWhere = "damaged: list of tags";

std::vector<std::string> Seeds() {
  return {R"({"name": "team/model", "tags": ["v1", "v1.2_3-x", "latest"]})",
          R"({"name": "team/model", "tags": null})", R"({"name": "team/model", "tags": []})"};
}

std::string Check(std::string_view input) {
  const auto tags = moepack::registry::ParseTagList(kWhere, input);
  if (!tags) return fuzz::ErrorProblem(tags.error(), kWhere);
  for (const std::string& tag : *tags)
    if (!moepack::registry::IsTag(tag)) return "what is not a tag: " + tag;
  return "";
}

constexpr fuzz::Target kTarget{Check, Seeds, 5000, 500};

}  // namespace tag_list_target

FUZZ_JSON_TARGET(FuzzTagList, tag_list_target::kTarget)
