// The answers of S3 to ListObjectsV2 and its errors: XML, of which only these elements are read.
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
  std::string next;  // the token to request the next page; "" after the last
};
// `where` names the answer in errors. Text that is not well-formed is kCorrupt, as is an object
// without key or size. Entities that a DTD declares stay as they are written.
Result<S3Page> ParseS3Page(const std::string& where, std::string_view xml);

// "NoSuchKey" from an error's document; "" for anything else.
std::string S3ErrorCode(std::string_view xml);

}  // namespace moepack::remote
