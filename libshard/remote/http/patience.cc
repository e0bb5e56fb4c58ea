#include "libshard/remote/http/patience.h"

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kProgressBytes = 1u << 20;

}  // namespace

void Patience::Note(Time now) {
  const std::lock_guard lock(mutex_);
  ++steps_;
  last_ = now;
}

bool Patience::Keep(uint64_t bytes, Time now) {
  const std::lock_guard lock(mutex_);
  kept_ += bytes;
  if (kept_ < kProgressBytes) return false;
  kept_ = 0;
  ++steps_;
  last_ = now;
  return true;
}

bool Patience::IsOver(Failures& failures, bool reached, Time now) {
  const std::lock_guard lock(mutex_);
  if (failures.seen != steps_) failures.unheard = 0;
  failures.seen = steps_;
  ++failures.tries;
  ++failures.unheard;
  if (steps_ == 0 && unanswered_) return true;
  if (failures.unheard < rule_.tries) return false;
  return steps_ == 0 || !reached || now - last_ >= rule_.patience;
}

bool Patience::EndUnanswered() {
  const std::lock_guard lock(mutex_);
  unanswered_ = steps_ == 0;
  return unanswered_;
}

std::string TriesText(const RetryRule& rule, const Patience::Failures& failures) {
  if (failures.tries <= rule.tries) return Cat(" (", failures.tries, " tries)");
  return Cat(" (", failures.tries, " tries, no progress for ",
             static_cast<uint64_t>(rule.patience.count()), " s)");
}

}  // namespace moepack::remote
