#include "libshard/plan/held_out.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "libshard/base/digest.h"

namespace moepack {
namespace {

struct Candidate {
  const SessionScores* session;
  std::string digest;  // of the name
  size_t place;
};

bool Precedes(const Candidate& a, const Candidate& b) {
  return std::tie(a.session->bucket, a.digest, a.session->scores) <
         std::tie(b.session->bucket, b.digest, b.session->scores);
}

bool HasScore(const SessionScores& session) {
  return std::any_of(session.scores.begin(), session.scores.end(),
                     [](float score) { return score > 0; });
}

}  // namespace

SessionSplit SplitSessions(const ExpertScores& scores, uint32_t per_mille) {
  std::vector<Candidate> order;
  for (size_t place = 0; place < scores.sessions.size(); ++place) {
    const SessionScores& session = scores.sessions[place];
    if (HasScore(session))
      // The digest mixes the sessions of a bucket without a random number: names often ascend by
      // time or topic.
      order.push_back({&session, Xxh3Hex(std::as_bytes(std::span(session.name))), place});
  }
  std::sort(order.begin(), order.end(), Precedes);
  SessionSplit split;
  for (uint64_t i = 0; i < order.size(); ++i) {
    // True where the running share passes a whole number, which spreads the sessions that are held
    // out evenly over the sorted order and so over the buckets.
    const bool taken = (i + 1) * per_mille / 1000 > i * per_mille / 1000;
    (taken ? split.held_out : split.training).push_back(order[i].place);
  }
  std::sort(split.training.begin(), split.training.end());
  std::sort(split.held_out.begin(), split.held_out.end());
  return split;
}

}  // namespace moepack
