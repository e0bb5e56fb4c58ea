// Groups sessions by the experts that they use: how similar they are, their clusters, and groups
// that do not get many more than their share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/strategies/session_shares.h"

namespace moepack {

// How similar sessions are in the experts that they use.

// The products of all pairs of session vectors. A session's vector has the square root of its share
// at every layer and expert, minus the mean over all sessions, scaled to length kGramUnit and
// rounded to integers. Integer sums do not depend on the order, so the matrix is exact on every
// machine.
class SessionGram {
 public:
  static Result<SessionGram> Of(const SessionShares& shares);

  size_t size() const { return size_; }
  // About kGramUnit^2 times the cosine; 0 for a session that equals the mean of all.
  int32_t At(size_t a, size_t b) const { return products_[a * size_ + b]; }

 private:
  size_t size_ = 0;
  std::vector<int32_t> products_;
};

// The largest int16. Rounding adds at most 0.5 per place to a vector's length, sqrt(2^18) / 2 = 256
// in all for as many experts as a model may have (limits.h). By Cauchy-Schwarz no product, and no
// part of one, exceeds (32767 + 256)^2 < 2^31.
inline constexpr int32_t kGramUnit = 32767;

// Centred spherical k-means from `restarts` starts (k-means++ on a generator seeded with `seed`).
// Returns the different groupings found, the best first: clusters[i][session] < groups. Clusters
// are numbered by their first session. REQUIRES: 0 < groups <= gram.size().
Result<std::vector<std::vector<uint32_t>>> ClusterSessions(const SessionGram& gram, size_t groups,
                                                           size_t restarts, uint64_t seed);

// Gives every session a group, such that no group gets many more than its share.

// The most sessions that a group may get: half more than its share. With equal groups, kinds of
// sessions that differ in number would be torn apart.
size_t MostSessions(size_t sessions, size_t groups);

// Up to this many sessions every pair of them is compared. With more of them that would take too
// long, since pairs grow with the square of the sessions.
inline constexpr size_t kMostComparedSessions = 2048;

// Returns the group of every session so that the sum of values[session * groups + group] is large:
// the sessions that lose most with the next best group choose first, then sessions are moved or two
// of them swapped as long as that gains. Of more than kMostComparedSessions, those of two groups
// are swapped that gain most by it. Every group gets at least one session. REQUIRES: 0 < groups <=
// sessions <= groups * most.
std::vector<uint32_t> BalancedGroups(const std::vector<double>& values, size_t groups, size_t most);

}  // namespace moepack
