// The answers of S3 to ListObjectsV2 and its errors: XML, of which just these elements are read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::remote {

struct S3Object {
  std::string key, etag;
  uint64_t size = 0;
};

struct S3Page {
  std::vector<S3Object> objects;
  std::string next;  // what the next page is asked for with; "" behind the last
};
// `where` names the answer in errors. Everything that is no element, text or declaration (a DTD,
// a comment) is kCorrupt, as is an object without key or size.
Result<S3Page> ParseS3Page(const std::string& where, std::string_view xml);

// "NoSuchKey" of an error's document; "" for anything else.
std::string S3ErrorCode(std::string_view xml);

}  // namespace moepack::remote
