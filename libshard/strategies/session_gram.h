// How similar sessions are in the experts that they use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/strategies/session_shares.h"

namespace moepack {

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

}  // namespace moepack
