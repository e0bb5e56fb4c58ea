// Gives every session a group, such that no group gets many more than its share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moepack {

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
