// What an answer to a range request states (RFC 9110, sections 8.8, 13.1.5 and 14), and the errors
// for one that contradicts itself or the request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"

namespace moepack::remote {

// Distinguishes one content of an address from another: by a strong ETag, otherwise the time of the
// last change, otherwise only the size.
struct Validator {
  std::string etag, modified;
  // The value for If-Range: the ETag or, without one, the time of a change at least a second before
  // the answer, so that no other content can have the same. "" for none.
  std::string condition = {};

  bool empty() const { return etag.empty() && modified.empty(); }
  // `ETag "abc"`, for messages and identities.
  std::string Shown() const;
};
Validator ValidatorOf(const HttpFields& fields);

// "bytes 0-99/1000"; without a total if the server does not state one ("*"). No value for anything
// else.
struct ContentRange {
  uint64_t first = 0, last = 0;
  std::optional<uint64_t> total;
};
std::optional<ContentRange> ParseContentRange(std::string_view text);

// "bytes 0-99".
std::string ShownRange(uint64_t first, uint64_t bytes);

// Checks that apply to every answer with a file's body: kIo for a compressed one, one of several
// parts, or a web page.
Status CheckPlainBody(const std::string& name, const HttpReply& head);
// Content-Length, if there is one, must be that of the range.
Status CheckLength(const std::string& name, const HttpReply& head, uint64_t expected);

// kCorrupt: Content-Range is not what was requested.
Error WrongRange(const std::string& name, const HttpReply& head, const std::string& expected);
// kCorrupt: the body continues past its end.
Error BodyTooLong(const std::string& name, uint64_t expected);
// kIo: the whole file instead of a range.
Error RangeIgnored(const std::string& name, const HttpReply& head, const char* hint);

inline constexpr const char* kServerIsBroken =
    "the server or a proxy in between is broken: use another";

}  // namespace moepack::remote
