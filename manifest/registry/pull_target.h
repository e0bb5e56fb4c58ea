// The state of a pull's output before the pull.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "manifest/document/pull_lock.h"

namespace moepack::registry {

struct PullTarget {
  enum class State : uint8_t {
    kAbsent,
    kSame,   // it holds the distribution that is pulled, or part of it
    kOther,  // something else
  };
  State state = State::kAbsent;
  std::optional<manifest::PullLock> lock;
  std::string distribution_sha256;  // of its distribution.json; "" if it has none
  // For another distribution: the files that it may have, by digest ("sha256:...").
  std::map<std::string, std::string> files;
};

// What a pull is about to put into an output.
struct PulledSet {
  std::string_view digest;             // of the manifest
  std::string_view distribution_text;  // of its distribution.json
};

// Compares the existing output with it. One without a distribution.json that can be read is the
// same if its lock says that it was pulled from there: the pull repairs it. A corrupt lock is
// kCorrupt.
Result<PullTarget> LookAtTarget(const std::string& out, const PulledSet& set);

}  // namespace moepack::registry
