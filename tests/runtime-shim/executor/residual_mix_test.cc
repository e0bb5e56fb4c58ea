// Residual attention on every executor, against the formula in double precision.
#include "runtime-shim/executor/residual_mix.h"

#include "tests/runtime-shim/executor/conformance.h"

namespace moepack::runtime {
namespace {

constexpr float kEps = 1e-5f;

// The mix of values [source][width] by a score of `width` values.
std::vector<float> MixedRow(const std::vector<std::vector<float>>& sources,
                            std::span<const float> score) {
  std::vector<double> shares;
  double sum = 0;
  for (const std::vector<float>& source : sources) {
    double squares = 0, product = 0;
    for (size_t i = 0; i < source.size(); ++i) {
      squares += double{source[i]} * source[i];
      product += double{source[i]} * score[i];
    }
    const double mean = squares / static_cast<double>(source.size());
    shares.push_back(std::exp(product / std::sqrt(mean + kEps)));
    sum += shares.back();
  }
  std::vector<float> mixed;
  for (size_t i = 0; i < sources[0].size(); ++i) {
    double value = 0;
    for (size_t c = 0; c < sources.size(); ++c) value += shares[c] / sum * sources[c][i];
    mixed.push_back(static_cast<float>(value));
  }
  return mixed;
}

// Rows that lie side by side, as the parts of a stream do, and what is mixed of them.
struct MixDesk {
  static constexpr uint32_t kWidth = 37, kSources = 4;

  Desk desk;
  Rows stream, out, normed, scores;
  Matrix score;

  MixDesk(Executor& executor, uint32_t count)
      : desk(executor),
        stream(desk.Random({count, kSources * kWidth, 3, 2}, 0.5f)),
        out(desk.Random({count, kWidth, 1})),
        normed(desk.Random({count, kWidth})),
        scores(desk.Random({count, kSources + 1})),
        score(desk.Vector(kWidth)) {}

  Rows Mix(uint32_t first, uint32_t count) {
    std::vector<Rows> sources;
    for (uint32_t c = 0; c < kSources; ++c)
      sources.push_back(stream.Slice(first, count).Columns(c * kWidth, kWidth));
    const Rows own = out.Slice(first, count);
    EXPECT_TRUE(MixResiduals(desk.executor(),
                             {sources, score, kEps, normed.Slice(0, count), scores.Slice(0, count)},
                             own));
    return own;
  }

  std::vector<float> Values(const Rows& rows) {
    std::vector<float> values(rows.values());
    EXPECT_TRUE(desk.executor().Read(rows, values));
    return values;
  }
};

class ResidualMixes : public EachExecutor {};

TEST_P(ResidualMixes, FollowTheFormula) {
  MixDesk desk(*executor_, 5);
  // The score's values are read by a product with 1 in one place each.
  std::vector<float> unit(MixDesk::kWidth * MixDesk::kWidth, 0.0f);
  for (size_t i = 0; i < MixDesk::kWidth; ++i) unit[i * MixDesk::kWidth + i] = 1;
  const Rows units = desk.desk.Random({MixDesk::kWidth, MixDesk::kWidth}),
             score = desk.desk.Random({MixDesk::kWidth, 1});
  executor_->Write(unit, units);
  executor_->MatMul(desk.score, units, score);
  const std::vector<float> weights = desk.Values(score), stream = desk.Values(desk.stream);
  std::vector<float> expected;
  for (size_t row = 0; row < 5; ++row) {
    std::vector<std::vector<float>> sources;
    for (size_t c = 0; c < MixDesk::kSources; ++c) {
      const auto first = stream.begin() + (row * MixDesk::kSources + c) * MixDesk::kWidth;
      sources.emplace_back(first, first + MixDesk::kWidth);
    }
    const std::vector<float> mixed = MixedRow(sources, weights);
    expected.insert(expected.end(), mixed.begin(), mixed.end());
  }
  ExpectNear(desk.Values(desk.Mix(0, 5)), expected, kProduct);
}

TEST_P(ResidualMixes, MatchTheReferenceAndWriteNothingElse) {
  Check(kProduct, [&](Desk& desk) {
    Executor& executor = desk.executor();
    const Rows stream = desk.Random({4, 60, 2, 1});
    const std::vector<Rows> sources = {stream.Columns(0, 20), stream.Columns(20, 20),
                                       stream.Columns(40, 20)};
    const Matrix score = desk.Vector(20);
    const Rows normed = desk.Random({4, 20}), scores = desk.Random({4, 3}),
               out = desk.Random({4, 20, 5, 3});
    EXPECT_TRUE(MixResiduals(executor, {sources, score, kEps, normed, scores}, out));
    return out;
  });
}

TEST_P(ResidualMixes, OfOneSourceAreThatSource) {
  Desk desk(*executor_);
  const Rows source = desk.Random({3, 16}), out = desk.Random({3, 16});
  const Rows normed = desk.Random({3, 16}), scores = desk.Random({3, 1});
  const Matrix score = desk.Vector(16);
  ASSERT_TRUE(MixResiduals(*executor_, {std::span(&source, 1), score, kEps, normed, scores}, out));
  EXPECT_EQ(desk.Take(out).values, desk.Take(source).values);
}

INSTANTIATE_TEST_SUITE_P(, ResidualMixes, ::testing::ValuesIn(AllExecutorKinds()), KindName);

TEST(CpuResidualMixes, GiveTheSameBitsInAnyBatch) {
  const auto executor = OpenExecutor("cpu", {.threads = 2});
  ASSERT_TRUE(executor);
  MixDesk whole(**executor, 9), parts(**executor, 9);
  whole.Mix(0, 9);
  for (const auto& [first, count] : {std::pair(0u, 4u), std::pair(4u, 1u), std::pair(5u, 4u)})
    parts.Mix(first, count);
  EXPECT_EQ(whole.Values(whole.out), parts.Values(parts.out));
}

}  // namespace
}  // namespace moepack::runtime
