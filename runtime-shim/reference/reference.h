// The reference executor: one plain loop per operation, sums in double, rounded to F32 once at the
// end. Slow, and easy to check by eye; every other executor is compared with it
// (tests/runtime-shim/executor/conformance_test.cc). It has no row in executors.cc.
#pragma once

#include <functional>
#include <string>

#include "runtime-shim/reference/host_executor.h"

namespace moepack::runtime {

class ReferenceExecutor : public HostExecutor {
 public:
  std::string name() const override { return "reference"; }
  std::string description() const override { return "plain loops, sums in double"; }

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override;
  SHARD_OPERATIONS(SHARD_OVERRIDE)

 protected:
  // Does `work` for each of `rows.count` rows, which do not depend on each other: here one after
  // another.
  virtual void ForEachRow(const Rows& rows, const std::function<void(uint32_t row)>& work);
};

}  // namespace moepack::runtime
