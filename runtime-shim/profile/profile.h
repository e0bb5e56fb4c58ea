// Runs texts through a model, and lets a collector see how they are routed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "runtime-shim/profile/collector.h"
#include "runtime-shim/profile/windows.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

struct ProfileOptions {
  uint32_t context = 512;  // tokens of a window
  uint32_t chunk = 128;    // tokens of each window that run at once
  uint32_t generate = 0;   // tokens to decode greedily after the last window
  std::optional<uint32_t> bos;
  std::function<bool(uint32_t id)> is_end;  // ends a generation; may be empty
  PieceDone advance;                        // after each step; may be empty
  std::string executor, precision;          // for the statistics
};

// Runs the windows of each text, as many at once as there are sessions, and decodes after the last
// window of each text. The statistics do not depend on how many run at once. Errors are those of
// sessions, and kInterrupted. REQUIRES: every session holds context + generate positions; session i
// has collector.ObserverOf(i) as its observer.
Status ProfileTexts(std::span<const TokenSession> texts, const ProfileOptions& options,
                    std::span<Session* const> sessions, StatisticsCollector& collector);

}  // namespace moepack::runtime
