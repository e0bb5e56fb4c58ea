// What is known of registries that do not take uploads as the specification has them. Sources are
// their own documents and reports of other clients; an option of the user goes before the table.
#pragma once

#include <cstdint>
#include <string_view>

namespace moepack::registry {

struct HostQuirks {
  const char* host;         // with '*' for any characters: "*.pkg.dev"
  bool whole_only = false;  // chunks are refused, or come out wrong
  uint64_t most_chunk = 0;  // bytes that one PATCH may have; 0 for no limit that is known
  // The Range of answers to PATCH says where the first chunk ended, however many there were.
  bool range_stays = false;
};

// `host` without a port. A registry that the table does not have has none.
HostQuirks QuirksOf(std::string_view host);

}  // namespace moepack::registry
