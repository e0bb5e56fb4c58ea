// Gives every session a group, none of which gets many more than its part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moepack {

// The most sessions that a group may get: half more than its part. With equal groups, sessions that
// differ in number by kind would be torn apart.
size_t MostSessions(size_t sessions, size_t groups);

// Returns the group of every session so that the sum of values[session * groups + group] is large:
// first those sessions choose that lose most by the next best group, then moves and exchanges of
// two sessions follow while they gain. Every group gets at least one session. REQUIRES: 0 < groups
// <= sessions <= groups * most.
std::vector<uint32_t> BalancedGroups(const std::vector<double>& values, size_t groups, size_t most);

}  // namespace moepack
