// The output of a pull as it is before.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "manifest/registry/pull_lock.h"

namespace moepack::registry {

struct PullTarget {
  enum class State : uint8_t {
    kAbsent,
    kSame,   // it holds the distribution that is pulled, or a part of it
    kOther,  // something else
  };
  State state = State::kAbsent;
  std::optional<PullLock> lock;
  // Of another distribution: the files that it may have, by their digests ("sha256:...").
  std::map<std::string, std::string> files;
};

// Compares what is there with the distribution.json that is pulled. A lock that is damaged is
// kCorrupt.
Result<PullTarget> LookAtTarget(const std::string& out, std::string_view distribution_text);

}  // namespace moepack::registry
