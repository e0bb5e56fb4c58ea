// Names texts by their tokens, so that one that was used before is recognised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

// 16 hexadecimal digits: the first of the SHA-256 of a session's token ids, each as four bytes,
// little-endian.
std::string SessionDigest(std::span<const uint32_t> tokens);
bool IsSessionDigest(std::string_view text);
// Those of sessions of any type that has `tokens`.
template <typename Sessions>
std::vector<std::string> SessionDigests(const Sessions& sessions) {
  std::vector<std::string> digests;
  for (const auto& session : sessions) digests.push_back(SessionDigest(session.tokens));
  return digests;
}

// How many of `digests` are in `known`, in any order.
size_t CountKnown(const std::vector<std::string>& digests, std::vector<std::string> known);

// In documents digests are one text, "0123456789abcdef ...": a list would have a line for each of
// many sessions.
std::string FormatDigests(const std::vector<std::string>& digests);
// None if the field is absent; kCorrupt for anything but such a text.
Result<std::vector<std::string>> DigestsField(const JsonFields& fields, const char* key);

}  // namespace moepack
