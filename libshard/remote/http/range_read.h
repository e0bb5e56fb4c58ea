// Ranges of a file over HTTP, RFC 9110 section 14, checked while they stream: the result is the
// requested range, of a file that is the same as before, or an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"
#include "libshard/remote/http/range_answer.h"

namespace moepack::remote {

// What is known about a file once a server has answered for it.
struct RemoteFile {
  std::string name;  // its name in messages
  uint64_t size = 0;
  Validator validator;
  bool states_size = true;  // in every Content-Range
};

// Where to request the file, without a Range. `refused`, unless null, is the address returned
// before, which is now refused, as happens with those signed for some minutes; another address or
// Authorization is returned, or the same if there is none. Called by several threads.
using Locate = std::function<Result<HttpRequest>(const Url* refused)>;
// Status 401 or 403, after which locating the file again is worth a try.
bool IsRefused(int status);
bool IsOther(const HttpRequest& located, const HttpRequest& refused);

// `located` for these bytes, called `name` in messages.
HttpRequest WithRange(HttpRequest located, std::string name, uint64_t first, uint64_t bytes);

// Fills `out` from `offset` on. Bytes received before a transfer was cut off are kept. Errors are
// those of HttpClient::Perform and StatusError; kIo for an answer that is not such a range;
// kCorrupt, with both validators, for one that contradicts itself or if the file is no longer what
// it was. REQUIRES: the range is inside the file and not empty.
Status ReadRange(HttpClient& client, const RemoteFile& file, const Locate& locate, uint64_t offset,
                 std::span<std::byte> out);

}  // namespace moepack::remote
