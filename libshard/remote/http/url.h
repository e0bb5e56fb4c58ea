// Addresses: parsing them, following a Location, and printing them without secrets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::remote {

// An http or https address. `path` begins with '/' and is percent-encoded as it was given; `query`
// comes without '?'. A fragment is dropped.
struct Url {
  std::string scheme, host;  // lower case; a literal IPv6 host has its brackets
  uint16_t port = 0;         // never 0 once parsed
  std::string path = "/";
  std::string query;
  std::string user, password;  // decoded; "" for none

  // What is sent to a server, without user and password.
  std::string Text() const;
  // For names and messages: without user, password and query, which may be secrets.
  std::string Shown() const;
  // "https://host" or "https://host:8443".
  std::string Origin() const;
  bool SameOrigin(const Url& other) const { return Origin() == other.Origin(); }
  // 127.0.0.0/8, ::1 or "localhost".
  bool IsLoopback() const;
};

// kInvalidArgument for anything that is not such an address; the message reveals none of its
// secrets. Both of these parse with libcurl and fail with kUnavailable where it is missing.
Result<Url> ParseUrl(std::string_view text);
// What a Location header means in an answer from `base`.
Result<Url> ResolveLocation(const Url& base, std::string_view location);
// The address with `rel="next"` in a Link header (RFC 8288): "<https://host/list?last=x>;
// rel=\"next\"". No value after the last page.
std::optional<std::string> NextPage(std::string_view link);
// "a b/ü" -> "a%20b/%C3%BC": everything but unreserved characters and '/'.
std::string EncodePath(std::string_view path);
// The same, but '/' is escaped, too: one component, or a value of a query.
std::string EncodeComponent(std::string_view text);
// "%20" -> " "; a '%' that does not begin an escape stays.
std::string DecodePercent(std::string_view text);
// `url` with a file's name appended to its path, with a '/' between them, and without its query.
Url Below(const Url& url, std::string_view file);

}  // namespace moepack::remote
