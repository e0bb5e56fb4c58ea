// The fixture of the conformance suite: the reference and an executor perform an operation on the
// same desk, and the results are compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "runtime-shim/devices/executors.h"
#include "runtime-shim/reference/reference.h"
#include "tests/runtime-shim/executor/desk.h"

namespace moepack::runtime {

// Largest error of any value, relative to the largest magnitude in the exact result. Executors sum
// in F32 in their own order, may fuse multiplication and addition, and have exp and reciprocals
// that are off by a few units in the last place (Vulkan allows exp 3 + 2 |x|).
constexpr double kExact = 0;         // values are only moved
constexpr double kRounded = 5e-7;    // a few operations on a value: 2^-24 each
constexpr double kFunction = 1e-5;   // exp, tanh: relative errors grow with the argument
constexpr double kNorm = 5e-6;       // one sum of squares, all of one sign; one root
constexpr double kProduct = 2e-5;    // sums whose terms cancel, a few thousand of them
constexpr double kAttention = 2e-5;  // products, exp and sums
constexpr const char* kSkipped = "SKIPPED executor ";

// Runs an operation and returns the rows it wrote.
using Operation = std::function<Rows(Desk&)>;

inline Outcome OutcomeOn(Executor& executor, const Operation& operation) {
  Desk desk(executor);
  const Rows written = operation(desk);
  const auto finished = executor.Finish();
  EXPECT_TRUE(finished.has_value()) << finished.error().message;
  return desk.Take(written);
}

inline double LargestMagnitude(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) {
    if (std::isfinite(value)) largest = std::max(largest, double{std::abs(value)});
  }
  return largest;
}

// NaN is where it is expected and nowhere else, and numbers are close.
inline void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected,
                       double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  const double scale = LargestMagnitude(expected);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(std::isnan(found[i]), std::isnan(expected[i])) << "value " << i;
    const double error = std::abs(double{found[i]} - double{expected[i]});
    if (!(error > worst)) continue;
    worst = error;
    at = i;
  }
  EXPECT_LE(worst, tolerance * scale) << "value " << at << ": expected " << expected[at]
                                      << ", found " << found[at] << "; largest " << scale;
}

// Executors that were opened for this suite, because devices take long to open.
class OpenExecutors {
 public:
  // Null if there is none; `why` then gives the reason.
  Executor* Find(const ExecutorKind& kind, std::string& why) {
    if (kind.missing != nullptr) {
      why = kind.missing;
      return nullptr;
    }
    auto [at, is_new] = opened_.try_emplace(kind.name);
    if (is_new) {
      auto executor = kind.open({.validation = true});
      if (executor)
        at->second.executor = std::move(*executor);
      else
        at->second.why = executor.error().message;
    }
    why = at->second.why;
    return at->second.executor.get();
  }
  void Close() { opened_.clear(); }

 private:
  struct Opened {
    std::unique_ptr<Executor> executor;
    std::string why;
  };
  std::map<std::string, Opened> opened_;
};

// SetUp leaves executor_ null, and skips, if this build or machine lacks the kind.
class ConformanceFixture : public ::testing::Test {
 public:
  static void TearDownTestSuite() { executors_.Close(); }

 protected:
  void Open(const ExecutorKind& kind) {
    std::string why;
    executor_ = executors_.Find(kind, why);
    if (executor_ == nullptr) GTEST_SKIP() << kSkipped << kind.name << ": " << why;
  }

  void Check(double tolerance, const Operation& operation) {
    const Outcome expected = OutcomeOn(reference_, operation);
    const Outcome found = OutcomeOn(*executor_, operation);
    ExpectNear(found.values, expected.values, tolerance);
    EXPECT_EQ(found.around, expected.around) << "the operation changed values that are not its own";
  }

  Executor* executor_ = nullptr;

 private:
  static inline OpenExecutors executors_;
  ReferenceExecutor reference_;
};

class EachExecutor : public ConformanceFixture, public ::testing::WithParamInterface<ExecutorKind> {
 protected:
  void SetUp() override { Open(GetParam()); }
};

inline void PrintTo(const ExecutorKind& kind, std::ostream* out) { *out << kind.name; }

inline std::string KindName(const ::testing::TestParamInfo<ExecutorKind>& info) {
  return info.param.name;
}

}  // namespace moepack::runtime
