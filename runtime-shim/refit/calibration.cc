#include "runtime-shim/refit/calibration.h"

#include <algorithm>
#include <map>

#include "libshard/base/spread_order.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// No session of a bucket that has enough others gives more than one part in this many.
constexpr uint64_t kLeastSessionsTaken = 8;

// How a bucket is divided.
struct BucketCount {
  uint64_t sessions = 0;  // that are taken
  uint64_t seen = 0;      // of them, so far
  uint64_t windows = 0;   // so far
  size_t place = 0;       // among Calibration::buckets
};

bool IsKeptBack(const BucketCount& bucket, uint32_t fold) {
  // Whole sessions are the better test, because windows of one text resemble each other; a bucket
  // of few sessions has nothing else to divide.
  const uint64_t number = bucket.sessions >= fold ? bucket.seen : bucket.windows;
  // By position, not drawn: a refit that is run again must hold the same text out.
  return number % fold == 0;  // numbers count from 1
}

// The tokens of a bucket's sessions if each gives at most `each`.
uint64_t SumUpTo(std::span<const TokenSession> sessions, const std::vector<size_t>& places,
                 uint64_t each) {
  uint64_t sum = 0;
  for (const size_t place : places) sum += std::min<uint64_t>(sessions[place].tokens.size(), each);
  return sum;
}

// What each session may give: a share of the limit, or more where the sessions would then give less
// than the limit.
uint64_t MostOfEach(std::span<const TokenSession> sessions, const std::vector<size_t>& places,
                    uint64_t most) {
  // A token has to have another before it.
  uint64_t least = std::max<uint64_t>(most / kLeastSessionsTaken, 2), beyond = most + 2;
  while (beyond - least > 1) {
    const uint64_t middle = least + (beyond - least) / 2;
    (SumUpTo(sessions, places, middle) <= most ? least : beyond) = middle;
  }
  return least;
}

// `places` are the sessions of a bucket.
void TakeOfBucket(std::span<const TokenSession> sessions, std::vector<size_t> places, uint64_t most,
                  std::vector<uint64_t>& taken) {
  const uint64_t all = SumUpTo(sessions, places, UINT64_MAX);
  const uint64_t each = all <= most ? all : MostOfEach(sessions, places, most);
  std::sort(places.begin(), places.end(),
            [&](size_t a, size_t b) { return sessions[a].name < sessions[b].name; });
  uint64_t sum = 0;
  for (const size_t next : SpreadOrder(places.size())) {
    const uint64_t own = std::min<uint64_t>(sessions[places[next]].tokens.size(), each);
    if (sum > 0 && all > most && sum + own > most) break;
    taken[places[next]] = own;
    sum += own;
  }
}

// A part of a session: as few windows as hold it, all of one length, at equal distances.
std::vector<Window> WindowsOfPart(std::span<const uint32_t> tokens, uint64_t taken,
                                  uint32_t context, std::optional<uint32_t> bos) {
  const size_t count = (taken + context - 1) / context;
  const size_t length = taken / count;
  const bool repeat = bos && tokens.front() == *bos;
  std::vector<Window> windows(count);
  for (size_t i = 0; i < count; ++i) {
    // In the middles of `count` equal stretches.
    const size_t middle = (2 * i + 1) * tokens.size() / (2 * count);
    const auto run = tokens.subspan(middle - length / 2, length);
    windows[i].tokens.assign(run.begin(), run.end());
    // As SplitWindows has it in front of each window.
    if (repeat) windows[i].tokens.front() = *bos;
  }
  return windows;
}

// The windows of what is taken of a session.
std::vector<Window> WindowsOf(const TokenSession& session, uint64_t taken, uint32_t context,
                              std::optional<uint32_t> bos) {
  if (taken == 0) return {};
  if (taken == session.tokens.size()) return SplitWindows(session.tokens, context, bos, false);
  return WindowsOfPart(session.tokens, taken, context, bos);
}

std::map<std::string, BucketCount> CountBuckets(std::span<const TokenSession> sessions,
                                                const std::vector<uint64_t>& taken,
                                                Calibration& made) {
  std::map<std::string, BucketCount> counts;
  for (size_t i = 0; i < sessions.size(); ++i) {
    const auto [found, added] = counts.try_emplace(sessions[i].bucket);
    if (added) {
      found->second.place = made.buckets.size();
      made.buckets.push_back({sessions[i].bucket});
    }
    CalibrationBucket& bucket = made.buckets[found->second.place];
    ++bucket.of_sessions;
    bucket.of_tokens += sessions[i].tokens.size();
    if (taken[i] == 0) continue;
    ++found->second.sessions;
    ++bucket.sessions;
    bucket.in_part += taken[i] < sessions[i].tokens.size();
  }
  return counts;
}

}  // namespace

std::vector<uint64_t> TokensTaken(std::span<const TokenSession> sessions, uint64_t most) {
  std::map<std::string, std::vector<size_t>> buckets;
  for (size_t i = 0; i < sessions.size(); ++i) buckets[sessions[i].bucket].push_back(i);
  std::vector<uint64_t> taken(sessions.size());
  for (auto& [bucket, places] : buckets)
    TakeOfBucket(sessions, std::move(places), most == 0 ? UINT64_MAX : most, taken);
  return taken;
}

Result<Calibration> MakeCalibration(std::span<const TokenSession> sessions,
                                    const SessionWeights& weights, const RefitOptions& options,
                                    std::optional<uint32_t> bos) {
  Calibration made;
  made.weights = weights;
  made.weights.resize(sessions.size());
  const std::vector<uint64_t> taken = TokensTaken(sessions, options.tokens);
  std::map<std::string, BucketCount> counts = CountBuckets(sessions, taken, made);
  made.taken.resize(sessions.size());
  for (size_t index = 0; index < sessions.size(); ++index) {
    BucketCount& count = counts[sessions[index].bucket];
    count.seen += taken[index] > 0;
    for (Window& window : WindowsOf(sessions[index], taken[index], options.context, bos)) {
      ++count.windows;
      made.taken[index] += window.tokens.size();
      made.windows.push_back({std::move(window.tokens), index, IsKeptBack(count, options.fold)});
    }
    made.tokens += made.taken[index];
    made.buckets[count.place].tokens += made.taken[index];
  }
  if (made.windows.size() < 2)
    return Error{Code::kInvalidArgument,
                 Cat("calibration text: expected at least 2 windows of ", options.context,
                     " tokens, found ", made.windows.size()),
                 "part of the text is held out to see what it gains"};
  const bool any = std::any_of(made.windows.begin(), made.windows.end(),
                               [](const CalibrationWindow& window) { return window.kept_back; });
  // A refit that could not be measured could not be refused either.
  if (!any) made.windows.back().kept_back = true;
  return made;
}

}  // namespace moepack::runtime
