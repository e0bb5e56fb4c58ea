#include "manifest/registry/server/tag_list.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/json_values.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

constexpr size_t kMostTagValues = 1u << 20;

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
      return fields.Wrong("tags", "tags as the specification has them");
    tags.push_back(tag.get<std::string>());
  }
  return tags;
}

}  // namespace moepack::registry
