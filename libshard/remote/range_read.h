// Ranges of a file over HTTP, RFC 9110 section 14, checked while they stream: a range is what was
// asked for, of a file that is the same as before, or an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/remote/http_client.h"

namespace moepack::remote {

// Tells one content of an address from another: a strong ETag, else the time of the last change,
// else nothing but the size.
struct Validator {
  std::string etag, modified;

  bool empty() const { return etag.empty() && modified.empty(); }
  // `ETag "abc"`, for messages and identities.
  std::string Shown() const;
};
Validator ValidatorOf(const HttpFields& fields);

// What is known of a file once a server has answered for it.
struct RemoteFile {
  std::string name;  // what messages call it
  uint64_t size = 0;
  Validator validator;
};

// "bytes 0-99/1000". No value for anything else, "*" included.
struct ContentRange {
  uint64_t first = 0, last = 0, total = 0;
};
std::optional<ContentRange> ParseContentRange(std::string_view text);

// Where the file is asked for, without a Range. `renew`: what was given before is refused by now,
// as addresses that are signed for some minutes are; an error when there is no other.
using Locate = std::function<Result<HttpRequest>(bool renew)>;

// The first answer of a file.
struct FirstRange {
  RemoteFile file;
  std::vector<std::byte> head;  // its first bytes
};
// Asks for the first `wanted` bytes; a file that is shorter is all of the answer, also where the
// server knows no ranges. Errors are those of HttpClient::Perform and StatusError; kIo for an
// answer that is no such range: ranges ignored, compressed, a web page; kCorrupt for one that
// contradicts itself.
Result<FirstRange> ReadFirstRange(HttpClient& client, const std::string& name, const Locate& locate,
                                  uint64_t wanted);

// Fills `out` from `offset` on. What came before a transfer broke off is kept. In addition to the
// errors above: kCorrupt, with both validators, when the file is no longer what it was.
// REQUIRES: the range lies inside the file and is not empty.
Status ReadRange(HttpClient& client, const RemoteFile& file, const Locate& locate, uint64_t offset,
                 std::span<std::byte> out);

}  // namespace moepack::remote
