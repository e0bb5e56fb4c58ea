#include "manifest/registry/server/tag_list.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

constexpr size_t kMostTagValues = 1u << 20;

Error NotATag(const std::string& where, size_t i, const Json& found) {
  return {Code::kCorrupt,
          Cat(where, ": tags: ", i, ": expected ", kTagForm, ", found ", DescribeJson(found))};
}

}  // namespace

Result<std::vector<std::string>> ParseTagList(const std::string& where, std::string_view text) {
  SHARD_CHECK(CheckJsonValues(where, text, kMostTagValues));
  SHARD_TRY(const Json document, ParseJson(where, text));
  const JsonFields fields(document, where);
  std::vector<std::string> tags;
  if (!document.is_object() || !fields.Has("tags")) return tags;
  SHARD_TRY(const Json* listed, fields.Array("tags"));
  for (const Json& tag : *listed) {
    if (!tag.is_string() || !IsTag(tag.get_ref<const std::string&>()))
      return NotATag(where, tags.size(), tag);
    tags.push_back(tag.get<std::string>());
  }
  return tags;
}

}  // namespace moepack::registry
