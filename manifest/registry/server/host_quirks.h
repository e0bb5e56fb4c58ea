// What is known about registries that do not accept uploads as specified. Sources are their own
// documents and reports of other clients; a user's option takes precedence over the table.
#pragma once

#include <cstdint>
#include <string_view>

namespace moepack::registry {

struct HostQuirks {
  const char* host;         // with '*' for any characters: "*.pkg.dev"
  bool whole_only = false;  // chunks are refused or come out wrong
  uint64_t most_chunk = 0;  // bytes that one PATCH may have; 0 for no known limit
  // The Range of answers to PATCH always says where the first chunk ended, however many there were.
  bool range_stays = false;
};

// The first row that matches `host`, a name without a port. A registry that the table does not have
// has no quirks.
HostQuirks QuirksOf(std::string_view host);

}  // namespace moepack::registry
