// What an output was pulled from, so that the next pull gets the same, wherever a tag has moved,
// and nodes get the overlay that was pulled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/plan/plan.h"

namespace moepack::manifest {

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

// The overlay of a node for which none was named.
struct DefaultOverlay {
  std::string version = {};  // "" for the current one
  bool none = false;         // pulled without one
  std::string note = {};     // "" if it is the current one
};
// What was pulled decides, because the files of the current overlay may be absent. Only a directory
// on this machine was pulled.
Result<DefaultOverlay> OverlayByDefault(const SourceTree& distribution, const Plan& plan);

}  // namespace moepack::manifest
