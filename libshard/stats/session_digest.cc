#include "libshard/stats/session_digest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr size_t kSessionDigestDigits = 16;

}  // namespace

std::string SessionDigest(std::span<const uint32_t> tokens) {
  std::vector<std::byte> bytes(tokens.size() * sizeof(uint32_t));
  for (size_t i = 0; i < tokens.size(); ++i)
    StoreLe(tokens[i], std::span(bytes).subspan(i * sizeof(uint32_t), sizeof(uint32_t)));
  return Sha256Hex(bytes).substr(0, kSessionDigestDigits);
}

bool IsSessionDigest(std::string_view text) { return IsHex(text, kSessionDigestDigits); }

size_t CountKnown(const std::vector<std::string>& digests, std::vector<std::string> known) {
  std::sort(known.begin(), known.end());
  return static_cast<size_t>(
      std::count_if(digests.begin(), digests.end(), [&](const std::string& digest) {
        return std::binary_search(known.begin(), known.end(), digest);
      }));
}

std::string FormatDigests(const std::vector<std::string>& digests) { return Join(digests, " "); }

Result<std::vector<std::string>> DigestsField(const JsonFields& fields, const char* key) {
  if (!fields.Has(key)) return std::vector<std::string>();
  SHARD_TRY(const std::string text, fields.String(key));
  std::vector<std::string> digests = Split(text, ' ');
  if (!std::all_of(digests.begin(), digests.end(),
                   [](const std::string& digest) { return IsSessionDigest(digest); }))
    return fields.Wrong(key, "digests of 16 hexadecimal digits with spaces between them");
  return digests;
}

}  // namespace moepack
