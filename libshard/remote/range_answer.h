// What an answer to a request for a range says of itself (RFC 9110, sections 8.8, 13.1.5 and 14),
// and the errors for one that contradicts itself or what was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/remote/http_client.h"

namespace moepack::remote {

// Tells one content of an address from another: a strong ETag, else the time of the last change,
// else nothing but the size.
struct Validator {
  std::string etag, modified;
  // Value of If-Range: the ETag, or without any the time of a change that lies at least a second
  // before the answer, so that no other content can have the same. "" for none.
  std::string condition = {};

  bool empty() const { return etag.empty() && modified.empty(); }
  // `ETag "abc"`, for messages and identities.
  std::string Shown() const;
};
Validator ValidatorOf(const HttpFields& fields);

// "bytes 0-99/1000"; without a total where the server does not state one ("*"). No value for
// anything else.
struct ContentRange {
  uint64_t first = 0, last = 0;
  std::optional<uint64_t> total;
};
std::optional<ContentRange> ParseContentRange(std::string_view text);

// "bytes 0-99".
std::string ShownRange(uint64_t first, uint64_t bytes);

// What holds for every answer with a body of a file: kIo for a compressed one, one of several parts
// and a web page.
Status CheckPlainBody(const std::string& name, const HttpReply& head);
// Content-Length, where there is one, is that of the range.
Status CheckLength(const std::string& name, const HttpReply& head, uint64_t expected);

// kCorrupt: Content-Range is not what was asked for.
Error WrongRange(const std::string& name, const HttpReply& head, const std::string& expected);
// kCorrupt: the body goes on behind its end.
Error BodyTooLong(const std::string& name, uint64_t expected);
// kIo: the whole file in place of a range.
Error RangeIgnored(const std::string& name, const HttpReply& head, const char* hint);

inline constexpr const char* kServerIsBroken =
    "the server or a proxy in between is broken: use another";

}  // namespace moepack::remote
