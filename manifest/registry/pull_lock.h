// What an output was pulled from, so that the next pull gets the same, wherever a tag has moved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"

namespace moepack::registry {

struct PullLock {
  std::string reference;  // with its tag, without digest and secrets
  std::string digest;     // of the manifest
  std::vector<uint32_t> groups;
  // The version of the overlay, "" if the set has none; no value for an output without overlay.
  std::optional<std::string> overlay = "";

  bool operator==(const PullLock&) const = default;
};

std::string WriteLock(const PullLock& lock);
// The text may be hostile: kCorrupt.
Result<PullLock> ParseLock(const std::string& where, std::string_view text);
// For the directory of a distribution; no value if there is no lock.
Result<std::optional<PullLock>> ReadLock(const std::string& directory);

}  // namespace moepack::registry
