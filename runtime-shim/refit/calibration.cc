#include "runtime-shim/refit/calibration.h"

#include <algorithm>
#include <map>

#include "libshard/base/text/text.h"
#include "runtime-shim/profile/windows.h"

namespace moepack::runtime {
namespace {

// How a bucket is divided.
struct BucketCount {
  uint64_t sessions = 0;  // in all
  uint64_t seen = 0;      // sessions so far
  uint64_t windows = 0;   // so far
  uint64_t tokens = 0;    // so far
};

bool IsKeptBack(const BucketCount& bucket, uint32_t fold) {
  // Whole sessions are the better test, because windows of one text resemble each other; a bucket
  // of few sessions has nothing else to divide.
  const uint64_t number = bucket.sessions >= fold ? bucket.seen : bucket.windows;
  // By position, not drawn: a refit that is run again must hold the same text out.
  return number % fold == 0;  // numbers count from 1
}

}  // namespace

Result<Calibration> MakeCalibration(std::span<const CalibrationSession> sessions,
                                    const CalibrationOptions& options) {
  std::map<std::string, BucketCount> buckets;
  for (const CalibrationSession& session : sessions) ++buckets[session.bucket].sessions;
  Calibration made;
  for (size_t index = 0; index < sessions.size(); ++index) {
    BucketCount& bucket = buckets[sessions[index].bucket];
    ++bucket.seen;
    made.weights.push_back(sessions[index].weights);
    for (Window& window :
         SplitWindows(sessions[index].tokens, options.context, options.bos, false)) {
      if (options.tokens > 0 && bucket.tokens >= options.tokens) break;
      ++bucket.windows;
      bucket.tokens += window.tokens.size();
      made.tokens += window.tokens.size();
      made.windows.push_back({std::move(window.tokens), index, IsKeptBack(bucket, options.fold)});
    }
  }
  if (made.windows.size() < 2)
    return Error{Code::kInvalidArgument,
                 Cat("calibration text: expected at least 2 windows of ", options.context,
                     " tokens, found ", made.windows.size()),
                 "part of the text is held out to see whether the refit helps"};
  const bool any = std::any_of(made.windows.begin(), made.windows.end(),
                               [](const CalibrationWindow& window) { return window.kept_back; });
  // A refit that could not be measured could not be refused either.
  if (!any) made.windows.back().kept_back = true;
  return made;
}

}  // namespace moepack::runtime
