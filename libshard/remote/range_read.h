// Ranges of a file over HTTP, RFC 9110 section 14, checked while they stream: a range is what was
// asked for, of a file that is the same as before, or an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/http_client.h"
#include "libshard/remote/range_answer.h"

namespace moepack::remote {

// What is known of a file once a server has answered for it.
struct RemoteFile {
  std::string name;  // what messages call it
  uint64_t size = 0;
  Validator validator;
  bool states_size = true;  // in every Content-Range
};

// Where the file is asked for, without a Range. `refused`, unless null: the address that was given
// before and is refused by now, as those that are signed for some minutes are; another address or
// Authorization is given, or the same when there is none. Called by several threads.
using Locate = std::function<Result<HttpRequest>(const Url* refused)>;
// Status 401 or 403, and what was located anew is worth a try.
bool IsRefused(int status);
bool IsOther(const HttpRequest& located, const HttpRequest& refused);

// `located` for these bytes, called `name` in messages.
HttpRequest WithRange(HttpRequest located, std::string name, uint64_t first, uint64_t bytes);

// Fills `out` from `offset` on. What came before a transfer broke off is kept. Errors are those of
// HttpClient::Perform and StatusError; kIo for an answer that is no such range; kCorrupt for one
// that contradicts itself and, with both validators, when the file is no longer what it was.
// REQUIRES: the range lies inside the file and is not empty.
Status ReadRange(HttpClient& client, const RemoteFile& file, const Locate& locate, uint64_t offset,
                 std::span<std::byte> out);

}  // namespace moepack::remote
