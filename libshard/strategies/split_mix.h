// A generator of our own, because the standard library's distributions differ between
// implementations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace moepack {

// SplitMix64 (Steele, Lea, Flood 2014), with the constants of its published form.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // Every number below `end` is equally likely. REQUIRES: end > 0.
  uint64_t Below(uint64_t end) {
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    const uint64_t refused = (kMost % end + 1) % end;
    uint64_t drawn = Next();
    while (drawn > kMost - refused) drawn = Next();
    return drawn % end;
  }

  // Fisher-Yates: every order is equally likely.
  template <class T>
  void Shuffle(std::span<T> values) {
    for (size_t left = values.size(); left > 1; --left)
      std::swap(values[left - 1], values[Below(left)]);
  }

 private:
  uint64_t state_;
};

}  // namespace moepack
