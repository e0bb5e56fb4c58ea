// The state of a pull's output before the pull.
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
    kSame,   // it holds the distribution that is pulled, or part of it
    kOther,  // something else
  };
  State state = State::kAbsent;
  std::optional<PullLock> lock;
  std::string distribution_sha256;  // of its distribution.json; "" if it has none
  // For another distribution: the files that it may have, by digest ("sha256:...").
  std::map<std::string, std::string> files;
};

// Compares the existing output with the distribution.json that is pulled. A corrupt lock is
// kCorrupt.
Result<PullTarget> LookAtTarget(const std::string& out, std::string_view distribution_text);

}  // namespace moepack::registry
