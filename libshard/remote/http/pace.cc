#include "libshard/remote/http/pace.h"

#include <algorithm>

namespace moepack::remote {
namespace {

// Eight requests in progress may each be the first to notice, so there is room for many more.
constexpr uint64_t kFewRequests = 64;

}  // namespace

void Pace::Note(const HttpFields& fields, Time now) {
  const auto limit = RequestsLeftOf(fields);
  if (!limit) return;
  if (limit->left > kFewRequests) {
    next_ = end_ = {};
    return;
  }
  const Seconds window = limit->window + Seconds(1);
  end_ = now + window;
  gap_ = window / static_cast<double>(limit->left + 1);
  if (limit->left == 0) next_ = end_;
}

Pace::Time Pace::Take(Time now) {
  if (now >= end_) return now;
  const Time turn = std::min(std::max(now, next_), end_);
  next_ = turn + gap_;
  return turn;
}

}  // namespace moepack::remote
