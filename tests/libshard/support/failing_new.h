// Allocations that fail on request, in the whole test binary.
#pragma once

#include <cstddef>

namespace moepack {

// While it lives, the n-th allocation from now on (0: the next) throws std::bad_alloc in whichever
// thread makes it, and so do the `more` allocations that follow. One at a time.
class FailingNew {
 public:
  explicit FailingNew(size_t n, size_t more = 0);
  ~FailingNew();
  // Whether an allocation has failed.
  bool failed() const;
};

}  // namespace moepack
