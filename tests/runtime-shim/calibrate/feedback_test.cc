#include "runtime-shim/calibrate/feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/levels.h"
#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

constexpr size_t kInputColumns = 256, kWeightRows = 40, kInputTokens = 600;

// Inputs whose columns depend on each other and differ in size, as those of a model do.
std::vector<float> Inputs(uint32_t seed) {
  const std::vector<float> noise = RandomFloats(kInputTokens * kInputColumns, seed);
  std::vector<float> rows = noise;
  for (size_t t = 0; t < kInputTokens; ++t) {
    for (size_t c = 1; c < kInputColumns; ++c) {
      float& value = rows[t * kInputColumns + c];
      value =
          (value + 0.7f * rows[t * kInputColumns + c - 1]) * (1 + static_cast<float>(c % 5) / 4);
      value = std::clamp(value, -9.0f, 9.0f);
    }
  }
  return rows;
}

InputMoments MomentsOf(std::span<const float> rows, std::span<const float> full) {
  const auto executor = OpenExecutor("cpu", {});
  Products products(**executor, 2);
  MomentSums sums(kInputColumns, !full.empty(), products);
  EXPECT_TRUE(sums.Add(rows, full));
  return *sums.Finish();
}

// The levels of a matrix in their order, whatever the type's bytes.
std::vector<float> DecodedOf(const quant::Format& format, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / format.block_bytes * format.block_values);
  format.decode(bytes, values);
  return values;
}

// The textbook form: with R the upper Cholesky factor of the inverse of A + damping, columns in
// falling order of the diagonal, each later column takes up error / R_kk * R_kj. In doubles, by
// elimination. `grid` are the values that each weight may take, ascending.
std::vector<double> TextbookGptq(std::span<const float> weights, const InputMoments& moments,
                                 double damping,
                                 const std::vector<std::vector<float>>& values_of_levels) {
  const size_t n = kInputColumns;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return moments.own[a * n + a] > moments.own[b * n + b];
  });
  std::vector<double> inverse(n * n), matrix(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) matrix[i * n + j] = moments.own[order[i] * n + order[j]];
    matrix[i * n + i] += damping * moments.mean();
    inverse[i * n + i] = 1;
  }
  for (size_t k = 0; k < n; ++k) {  // Gauss and Jordan
    const double pivot = 1 / matrix[k * n + k];
    for (size_t j = 0; j < n; ++j) {
      matrix[k * n + j] *= pivot;
      inverse[k * n + j] *= pivot;
    }
    for (size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = matrix[i * n + k];
      for (size_t j = 0; j < n; ++j) {
        matrix[i * n + j] -= factor * matrix[k * n + j];
        inverse[i * n + j] -= factor * inverse[k * n + j];
      }
    }
  }
  std::vector<double> root(n * n);  // R
  for (size_t i = 0; i < n; ++i) {
    double diagonal = inverse[i * n + i];
    for (size_t k = 0; k < i; ++k) diagonal -= root[k * n + i] * root[k * n + i];
    root[i * n + i] = std::sqrt(diagonal);
    for (size_t j = i + 1; j < n; ++j) {
      double sum = inverse[i * n + j];
      for (size_t k = 0; k < i; ++k) sum -= root[k * n + i] * root[k * n + j];
      root[i * n + j] = sum / root[i * n + i];
    }
  }
  std::vector<double> out(weights.size());
  for (size_t row = 0; row < weights.size() / n; ++row) {
    std::vector<double> open(n);
    for (size_t k = 0; k < n; ++k) open[k] = weights[row * n + order[k]];
    for (size_t k = 0; k < n; ++k) {
      double best = 0, distance = 1e300;
      for (const std::vector<float>& level : values_of_levels) {
        const double value = level[row * n + order[k]];
        if (std::abs(value - open[k]) >= distance) continue;
        distance = std::abs(value - open[k]);
        best = value;
      }
      out[row * n + order[k]] = best;
      const double error = (open[k] - best) / root[k * n + k];
      for (size_t j = k + 1; j < n; ++j) open[j] -= error * root[k * n + j];
    }
  }
  return out;
}

// What each weight would be at each level, with the scales of these blocks.
std::vector<std::vector<float>> ValuesOfLevels(const quant::Format& format,
                                               std::vector<std::byte> blocks) {
  const quant::LevelGrid& grid = *quant::FindGrid(format);
  std::vector<std::vector<float>> values;
  for (uint32_t level = 0; level < grid.count; ++level) {
    const std::vector<uint8_t> same(format.block_values, static_cast<uint8_t>(level));
    for (size_t at = 0; at < blocks.size(); at += format.block_bytes)
      grid.put(same, std::span(blocks).subspan(at, format.block_bytes));
    values.push_back(DecodedOf(format, blocks));
  }
  return values;
}

class Feedback : public testing::TestWithParam<const char*> {
 protected:
  const quant::Format* format() const { return quant::FindFormat(GetParam()); }
};

TEST_P(Feedback, ChoosesTheLevelsOfTheTextbookForTheSameMomentsAndScales) {
  const std::vector<float> weights = RandomFloats(kWeightRows * kInputColumns, 5),
                           inputs = Inputs(6);
  const InputMoments moments = MomentsOf(inputs, {});
  const auto factor = FeedbackFactor::Of(moments, {}, {.jobs = 1});
  ASSERT_TRUE(factor);
  const std::vector<std::vector<float>> importance = {moments.diagonal()};
  const std::vector<std::byte> made =
      EncodeWithFeedback({weights, kInputColumns, format()}, *factor, importance, 2);
  const std::vector<double> wanted =
      TextbookGptq(weights, moments, kFeedbackDamping, ValuesOfLevels(*format(), made));
  const std::vector<float> found = DecodedOf(*format(), made);
  size_t same = 0;
  for (size_t i = 0; i < found.size(); ++i) same += static_cast<double>(found[i]) == wanted[i];
  EXPECT_GE(static_cast<double>(same), 0.999 * static_cast<double>(found.size())) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Types, Feedback,
                         testing::Values("q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "q4_0", "q5_1",
                                         "q8_0", "iq4_nl", "iq4_xs", "mxfp4", "nvfp4"));

double ErrorOf(const char* type, bool feedback, bool drift) {
  const std::vector<float> weights = RandomFloats(kWeightRows * kInputColumns, 5),
                           inputs = Inputs(6);
  std::vector<float> full = inputs;
  for (size_t i = 0; i < full.size(); ++i) full[i] += 0.1f * inputs[(i * 31) % inputs.size()];
  const InputMoments moments = MomentsOf(inputs, full);
  InputMoments learned = moments;
  if (!drift) learned.drift.clear();
  const FeedbackMatrix matrix{weights, kInputColumns, quant::FindFormat(type)};
  const std::vector<std::vector<float>> importance = {moments.diagonal()};
  std::vector<std::byte> bytes(kWeightRows * *matrix.format->BytesFor(kInputColumns));
  if (feedback) {
    const FactorOptions options{.together = ColumnsTogether(*matrix.format), .jobs = 1};
    bytes = EncodeWithFeedback(matrix, *FeedbackFactor::Of(learned, {}, options), importance, 1);
  } else {
    matrix.format->encode(weights, importance[0], bytes);
  }
  return ProductErrors(moments).Of(matrix, bytes, 1);
}

TEST(FeedbackError, FallsWithFeedbackAndMoreWithTheDrift) {
  for (const char* type : {"q3_K", "q4_K", "iq4_xs", "iq3_xxs", "iq3_s", "iq2_xxs", "iq2_xs",
                           "iq2_s", "iq1_m", "iq1_s"}) {
    const double plain = ErrorOf(type, false, false), own = ErrorOf(type, true, false);
    EXPECT_LT(own, 0.7 * plain) << type;
    EXPECT_LT(ErrorOf(type, true, true), own) << type;
  }
}

TEST(FeedbackError, IsTheErrorOfTheProducts) {
  const std::vector<float> weights = RandomFloats(kWeightRows * kInputColumns, 5),
                           inputs = Inputs(6);
  std::vector<float> full = Inputs(7);
  const quant::Format* const format = quant::FindFormat("q4_K");
  std::vector<std::byte> a(kWeightRows * *format->BytesFor(kInputColumns)), b = a;
  const std::vector<float> ones(kInputColumns, 1);
  format->encode(weights, ones, a);
  format->encode(weights, MomentsOf(inputs, {}).diagonal(), b);
  const auto direct = [&](std::span<const std::byte> bytes) {
    const std::vector<float> decoded = DecodedOf(*format, bytes);
    double sum = 0;
    for (size_t t = 0; t < kInputTokens; ++t) {
      for (size_t row = 0; row < kWeightRows; ++row) {
        double difference = 0;
        for (size_t c = 0; c < kInputColumns; ++c)
          difference += double{weights[row * kInputColumns + c]} * full[t * kInputColumns + c] -
                        double{decoded[row * kInputColumns + c]} * inputs[t * kInputColumns + c];
        sum += difference * difference;
      }
    }
    return sum;
  };
  const ProductErrors errors(MomentsOf(inputs, full));
  const FeedbackMatrix matrix{weights, kInputColumns, format};
  // A part that is the same for all encodings is left out.
  const double wanted = direct(a) - direct(b);
  EXPECT_NEAR(errors.Of(matrix, a, 1) - errors.Of(matrix, b, 1), wanted, 1e-2 * std::abs(wanted));
}

TEST(FeedbackBytes, DoNotDependOnThreads) {
  const std::vector<float> weights = RandomFloats(kWeightRows * kInputColumns, 5),
                           inputs = Inputs(6);
  const InputMoments moments = MomentsOf(inputs, Inputs(8));
  const std::vector<std::vector<float>> importance = {moments.diagonal(), {}};
  std::vector<std::vector<std::byte>> made;
  for (const size_t jobs : {1, 2, 5}) {
    const auto factor = FeedbackFactor::Of(moments, {}, {.jobs = jobs});
    made.push_back(EncodeWithFeedback({weights, kInputColumns, quant::FindFormat("q5_K")}, *factor,
                                      importance, jobs));
  }
  EXPECT_EQ(made[0], made[1]);
  EXPECT_EQ(made[0], made[2]);
}

TEST(FeedbackFactors, RefuseMomentsThatAreZeroOrNotFinite) {
  InputMoments moments;
  moments.columns = 2;
  moments.own = {0, 0, 0, 0};
  EXPECT_FALSE(FeedbackFactor::Of(moments, {}, {.jobs = 1}));
  moments.own = {1, 0, 0, std::nan("")};
  EXPECT_FALSE(FeedbackFactor::Of(moments, {}, {.jobs = 1}));
}

}  // namespace
}  // namespace moepack::runtime
