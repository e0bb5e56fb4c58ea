// Operations on rows, on every executor, against the reference.
#include "tests/runtime-shim/executor/conformance.h"

#include <limits>
#include <numeric>

namespace moepack::runtime {
namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

// One value, one row, rows with gaps, and rows that are longer than a thread group.
constexpr Layout kLayouts[] = {
    {1, 1, 0, 0}, {1, 64, 0, 3}, {3, 7, 2, 1}, {5, 96, 0, 0}, {37, 33, 31, 13}, {2, 2050, 6, 5},
};

Layout Dense(const Layout& layout) { return {layout.count, layout.width, 0, 0}; }

class ExecutorRows : public EachExecutor {
 protected:
  // `operation` on every layout, then once more with a NaN in its input rows.
  using OnLayout = std::function<Rows(Desk&, const Layout&)>;
  void CheckLayouts(double tolerance, const OnLayout& operation) {
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(::testing::Message() << layout.count << " rows of " << layout.width << " + "
                                        << layout.gap << " from " << layout.offset);
      Check(tolerance, [&](Desk& desk) { return operation(desk, layout); });
    }
  }
};

Rows WithNan(Desk& desk, const Layout& layout) {
  const Rows rows = desk.Random(layout);
  desk.Plant(rows, layout.count / 2, layout.width / 2, kNotANumber);
  return rows;
}

TEST_P(ExecutorRows, ReadBackWhatWasWritten) {
  CheckLayouts(kExact, [](Desk& desk, const Layout& layout) {
    const Rows rows = desk.Random(layout);
    std::vector<float> values = desk.Normal(size_t{layout.count} * layout.width);
    desk.executor().Write(values, rows);
    std::vector<float> back(values.size());
    EXPECT_TRUE(desk.executor().Read(rows, back).has_value());
    EXPECT_EQ(back, values);
    return rows;
  });
}

TEST_P(ExecutorRows, AllocateZeroedMemory) {
  auto buffer = executor_->Allocate(4000);
  ASSERT_TRUE(buffer.has_value());
  EXPECT_EQ((*buffer)->bytes(), 4000u);
  std::vector<float> values(1000, 1);
  ASSERT_TRUE(executor_->Read({buffer->get(), 0, 1, 1000, 1000}, values).has_value());
  EXPECT_EQ(values, std::vector<float>(1000, 0));
}

// Whole numbers, so that sums are exact in any order.
TEST_P(ExecutorRows, MultiplyExpertsInDifferentPlaces) {
  constexpr uint32_t kExperts = 3, kRows = 2, kColumns = 64, kEach = kRows * kColumns;
  std::vector<float> memory(2 * kExperts * kEach);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i % 11);
  std::vector<std::span<const float>> values;  // in descending order, with a gap between them
  std::vector<ByteView> views;
  for (uint32_t id = 0; id < kExperts; ++id) {
    values.push_back(std::span(memory).subspan((kExperts - 1 - id) * 2 * kEach, kEach));
    views.push_back(std::as_bytes(values.back()));
  }
  const auto loaded = executor_->Load(TensorBytes(views));
  auto rows = executor_->Allocate((kColumns + kRows) * sizeof(float));
  ASSERT_TRUE(loaded.has_value() && rows.has_value());
  EXPECT_EQ((*loaded)->bytes(), kExperts * kEach * sizeof(float));
  const Rows x = {rows->get(), 0, 1, kColumns, kColumns},
             y = {rows->get(), kColumns, 1, kRows, kRows};
  executor_->Write(std::vector<float>(kColumns, 2), x);
  const Matrix all = {loaded->get(), 0, quant::FindFormat("f32"), kExperts * kRows, kColumns};
  for (uint32_t id = 0; id < kExperts; ++id) {
    executor_->MatMul(all.Slice(id * kRows, kRows), x, y);
    std::vector<float> found(kRows);
    ASSERT_TRUE(executor_->Read(y, found).has_value());
    for (uint32_t row = 0; row < kRows; ++row) {
      const auto own = values[id].subspan(row * kColumns, kColumns);
      EXPECT_EQ(found[row], 2 * std::accumulate(own.begin(), own.end(), 0.0f)) << id;
    }
  }
}

TEST_P(ExecutorRows, ReportTheBytesOfAFailedAllocation) {
  auto buffer = executor_->Allocate(uint64_t{1} << 63);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, Code::kUnavailable);
  EXPECT_NE(buffer.error().message.find("9223372036854775808"), std::string::npos)
      << buffer.error().message;
}

TEST_P(ExecutorRows, CopyLikeTheReference) {
  CheckLayouts(kExact, [](Desk& desk, const Layout& layout) {
    const Rows from = WithNan(desk, layout);
    const Rows to = desk.Random({layout.count, layout.width, 4, 2});
    desk.executor().Copy(from, to);
    return to;
  });
}

TEST_P(ExecutorRows, CopyWithinABufferLikeTheReference) {
  Check(kExact, [](Desk& desk) {
    const Rows rows = desk.Random({6, 10, 3, 1});
    desk.executor().Copy(rows.Slice(0, 3).Columns(2, 5), rows.Slice(3, 3).Columns(1, 5));
    return rows;
  });
}

TEST_P(ExecutorRows, TransposeLikeTheReference) {
  CheckLayouts(kExact, [](Desk& desk, const Layout& layout) {
    const Rows y = desk.Random({layout.width, layout.count, 3, 2});
    desk.executor().Transpose(WithNan(desk, layout), y);
    return y;
  });
}

TEST_P(ExecutorRows, MeasureRowsLikeTheReference) {
  CheckLayouts(kNorm, [](Desk& desk, const Layout& layout) {
    const Rows sizes = desk.Random({layout.count, 2, 3, 2});
    desk.executor().MeasureRows(desk.Random(layout, 30), sizes);
    return sizes;
  });
}

TEST_P(ExecutorRows, MeasureTheNormOfARowWithNanAsNan) {
  CheckLayouts(kNorm, [](Desk& desk, const Layout& layout) {
    const Rows sizes = desk.Random({layout.count, 2}), norms = desk.Random({layout.count, 1});
    desk.executor().MeasureRows(WithNan(desk, layout), sizes);
    desk.executor().Copy(sizes.Columns(0, 1), norms);
    return norms;
  });
}

TEST_P(ExecutorRows, AddABiasLikeTheReference) {
  CheckLayouts(kRounded, [](Desk& desk, const Layout& layout) {
    const Rows x = WithNan(desk, layout);
    desk.executor().AddBias(x, desk.Vector(layout.width));
    return x;
  });
}

TEST_P(ExecutorRows, AddLikeTheReference) {
  CheckLayouts(kRounded, [](Desk& desk, const Layout& layout) {
    const Rows x = desk.Random(layout);
    desk.executor().Add(x, WithNan(desk, Dense(layout)), -0.37f);
    return x;
  });
}

TEST_P(ExecutorRows, ScaleLikeTheReference) {
  CheckLayouts(kRounded, [](Desk& desk, const Layout& layout) {
    const Rows x = WithNan(desk, layout);
    desk.executor().Scale(x, 0.123f);
    return x;
  });
}

TEST_P(ExecutorRows, ScaleEachRowLikeTheReference) {
  CheckLayouts(kRounded, [](Desk& desk, const Layout& layout) {
    const Rows x = WithNan(desk, layout);
    desk.executor().ScaleRows(x, desk.Normal(layout.count));
    return x;
  });
}

TEST_P(ExecutorRows, ScaleBySigmoidsLikeTheReference) {
  CheckLayouts(kFunction, [](Desk& desk, const Layout& layout) {
    const Rows x = WithNan(desk, layout);
    desk.executor().ScaleBySigmoid(x, desk.Random({layout.count, 1, 2, 1}, 4));
    return x;
  });
}

TEST_P(ExecutorRows, ScaleBySigmoidsOfLargeNumbersAndNan) {
  Check(kFunction, [](Desk& desk) {
    const Rows x = desk.Random({4, 9});
    const Rows gate = desk.Random({4, 1});
    const std::vector<float> gates = {-200, 200, kNotANumber, 0};
    desk.executor().Write(gates, gate);
    desk.executor().ScaleBySigmoid(x, gate);
    return x;
  });
}

TEST_P(ExecutorRows, NormalizeWithoutWeights) {
  CheckLayouts(kNorm, [](Desk& desk, const Layout& layout) {
    const Rows y = desk.Random(layout);
    desk.executor().RmsNorm(WithNan(desk, Dense(layout)), {.eps = 1e-5f}, y);
    return y;
  });
}

TEST_P(ExecutorRows, NormalizeInPlace) {
  CheckLayouts(kNorm, [](Desk& desk, const Layout& layout) {
    const Rows x = desk.Random(layout);
    desk.executor().RmsNorm(x, {.weight = desk.Vector(layout.width), .eps = 1e-6f}, x);
    return x;
  });
}

TEST_P(ExecutorRows, NormalizeWithWeightAndBias) {
  CheckLayouts(kNorm, [](Desk& desk, const Layout& layout) {
    const Rows y = desk.Random(Dense(layout));
    const Matrix weight = desk.Vector(layout.width), bias = desk.Vector(layout.width);
    desk.executor().RmsNorm(desk.Random(layout, 40), {weight, bias, 1e-6f}, y);
    return y;
  });
}

// Without eps, a row of zeros would be 0 / 0.
TEST_P(ExecutorRows, NormalizeVerySmallValuesWithEps) {
  Check(kNorm, [](Desk& desk) {
    const Rows x = desk.Random({3, 48}, 1e-4f);
    desk.executor().Write(std::vector<float>(48, 0), x.Slice(1, 1));
    desk.executor().RmsNorm(x, {.eps = 1e-5f}, x);
    return x;
  });
}

class ExecutorActivations
    : public ConformanceFixture,
      public ::testing::WithParamInterface<std::tuple<ExecutorKind, Activation>> {
 protected:
  void SetUp() override { Open(std::get<0>(GetParam())); }
};

std::string ActivationName(
    const ::testing::TestParamInfo<ExecutorActivations::ParamType>& parameters) {
  const auto& [kind, activation] = parameters.param;
  constexpr const char* kNames[] = {
      "silu",         "gelu", "clamped_silu",    "sigmoid", "squared_relu",
      "limited_silu", "relu", "silu_of_limited", "situ"};
  return std::string(kind.name) + "_" + kNames[static_cast<size_t>(activation.kind)];
}

// Deviation 5: some values lie beyond the clamps of gpt-oss.
TEST_P(ExecutorActivations, MatchTheReferenceOnEveryLayout) {
  for (const Layout& layout : kLayouts) {
    Check(kFunction, [&](Desk& desk) {
      const Rows gate = desk.Random(layout, 5);
      desk.executor().Activate(std::get<1>(GetParam()), gate, desk.Random(Dense(layout), 5));
      return gate;
    });
  }
}

// Where exp overflows or vanishes, and at the clamps.
TEST_P(ExecutorActivations, MatchTheReferenceForExtremeGates) {
  Check(kFunction, [&](Desk& desk) {
    const std::vector<float> gates = {-300, -88, -10, -7, 0, 7, 10, 88, 300};
    const Rows gate = desk.Random({1, 9}), up = desk.Random({1, 9}, 5);
    desk.executor().Write(gates, gate);
    desk.executor().Activate(std::get<1>(GetParam()), gate, up);
    return gate;
  });
}

TEST_P(ExecutorActivations, PropagateNan) {
  Check(kFunction, [&](Desk& desk) {
    const Rows gate = WithNan(desk, {3, 8}), up = desk.Random({3, 8});
    desk.Plant(up, 2, 1, kNotANumber);
    desk.executor().Activate(std::get<1>(GetParam()), gate, up);
    return gate;
  });
}

// Gate and up as the two halves of one row.
TEST_P(ExecutorActivations, MatchTheReferenceOnHalvesOfARow) {
  Check(kFunction, [&](Desk& desk) {
    const Rows both = desk.Random({4, 46});
    desk.executor().Activate(std::get<1>(GetParam()), both.Columns(0, 23), both.Columns(23, 23));
    return both.Columns(0, 23);
  });
}

TEST_P(ExecutorRows, GatherLikeTheReference) {
  CheckLayouts(kRounded, [](Desk& desk, const Layout& layout) {
    const Rows x = WithNan(desk, layout);
    const uint32_t last = layout.count - 1;
    const std::vector<uint32_t> rows = {last, 0, last, layout.count / 2};
    const Rows y = desk.Random({4, layout.width, 1, 2});
    desk.executor().Gather(x, rows, desk.Normal(4), y);
    return y;
  });
}

TEST_P(ExecutorRows, GatherWithoutFactorsLikeTheReference) {
  CheckLayouts(kExact, [](Desk& desk, const Layout& layout) {
    const Rows x = WithNan(desk, layout);
    const Rows y = desk.Random({2, layout.width});
    desk.executor().Gather(x, std::vector<uint32_t>{layout.count - 1, 0}, {}, y);
    return y;
  });
}

TEST_P(ExecutorRows, ScatterAndAddLikeTheReference) {
  CheckLayouts(kRounded, [](Desk& desk, const Layout& layout) {
    const Rows x = desk.Random(layout);
    std::vector<uint32_t> rows;  // every other one, the last first
    for (uint32_t row = layout.count; row > 0; row -= std::min(row, 2u)) rows.push_back(row - 1);
    const auto picked = static_cast<uint32_t>(rows.size());
    const Rows y = WithNan(desk, {picked, layout.width, 3, 1});
    desk.executor().ScatterAdd(x, rows, desk.Normal(picked), y);
    return x;
  });
}

// Operations see the results of those before them, even within one buffer.
TEST_P(ExecutorRows, AreProcessedInTheOrderOfTheCalls) {
  Check(kFunction, [](Desk& desk) {
    Executor& executor = desk.executor();
    const Rows x = desk.Random({5, 40, 8, 2}), y = desk.Random({5, 40}), z = desk.Random({3, 40});
    for (int round = 0; round < 20; ++round) {
      executor.RmsNorm(x, {.eps = 1e-5f}, y);
      executor.Scale(y, 0.5f);
      executor.Gather(y, std::vector<uint32_t>{4, 0, 2}, std::vector<float>{1, 2, 3}, z);
      executor.ScatterAdd(x, std::vector<uint32_t>{1, 3, 0}, std::vector<float>{1, 1, 0.5f}, z);
      executor.Add(x, y, 0.25f);
    }
    return x;
  });
}

INSTANTIATE_TEST_SUITE_P(, ExecutorRows, ::testing::ValuesIn(AllExecutorKinds()), KindName);
INSTANTIATE_TEST_SUITE_P(
    , ExecutorActivations,
    ::testing::Combine(::testing::ValuesIn(AllExecutorKinds()),
                       ::testing::Values(Activation::kSilu, Activation::kGelu,
                                         Activation::kClampedSilu, Activation::kSigmoid,
                                         Activation::kSquaredRelu,
                                         Activation(Activation::kLimitedSilu, 7), Activation::kRelu,
                                         Activation(Activation::kSiluOfLimited, 7),
                                         Activation(Activation::kSitu, 4, 25))),
    ActivationName);

}  // namespace
}  // namespace moepack::runtime
