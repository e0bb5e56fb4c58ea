#include "manifest/registry/server/host_quirks.h"

#include <iterator>

namespace moepack::registry {
namespace {

constexpr uint64_t kMiB = 1u << 20;

constexpr HostQuirks kHostQuirks[] = {
    // 416 "exceeds the maximum permissible limit" above 4 MiB (oci-client#35, kitops).
    {.host = "ghcr.io", .whole_only = true, .most_chunk = 4 * kMiB},
    // PATCH is answered with 201 (aws/containers-roadmap#2831, kitops#822).
    {.host = "*.dkr.ecr.*.amazonaws.com", .whole_only = true, .range_stays = true},
    {.host = "*.dkr.ecr.*.amazonaws.com.cn", .whole_only = true, .range_stays = true},
    {.host = "public.ecr.aws", .whole_only = true, .range_stays = true},
    // Google documents that chunks are not supported.
    {.host = "*.pkg.dev", .whole_only = true},
    {.host = "gcr.io", .whole_only = true},
    {.host = "*.gcr.io", .whole_only = true},
};

// '*' matches any characters, including none.
constexpr bool Matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t i = star; i <= text.size(); ++i) {
    if (Matches(rest, text.substr(i))) return true;
  }
  return false;
}

// The first row that matches counts, so a row is hidden if the pattern of an earlier one matches
// its own.
constexpr bool EveryRowIsFound() {
  for (const HostQuirks* row = std::begin(kHostQuirks); row != std::end(kHostQuirks); ++row) {
    for (const HostQuirks* earlier = std::begin(kHostQuirks); earlier != row; ++earlier)
      if (Matches(earlier->host, row->host)) return false;
  }
  return true;
}
static_assert(EveryRowIsFound());

}  // namespace

HostQuirks QuirksOf(std::string_view host) {
  for (const HostQuirks& quirks : kHostQuirks) {
    if (Matches(quirks.host, host)) return quirks;
  }
  return {.host = ""};
}

}  // namespace moepack::registry
