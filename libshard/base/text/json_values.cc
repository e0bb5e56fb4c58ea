#include "libshard/base/text/json_values.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"

namespace moepack {

// Every value but the first follows one of these characters, or is closed after an opening bracket.
Status CheckJsonValues(const std::string& where, std::string_view text, size_t most) {
  size_t values = 1;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      i += c == '\\' ? 1 : 0;
    } else {
      values += c == ',' || c == ':' || c == '[' || c == '{' ? 1 : 0;
    }
  }
  if (values <= most) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": JSON: expected at most ", most,
                                   " values in one document, found ", values)};
}

Status CheckObject(const std::string& where, const Json& value) {
  if (value.is_object()) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
}

Result<Json> ParseJsonObject(const std::string& where, std::string_view text, size_t most) {
  SHARD_CHECK(CheckJsonValues(where, text, most));
  SHARD_TRY(Json document, ParseJson(where, text));
  SHARD_CHECK(CheckObject(where, document));
  return document;
}

}  // namespace moepack
