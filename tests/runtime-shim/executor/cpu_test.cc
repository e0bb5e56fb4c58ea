// Promises of the CPU executor beyond the conformance suite: the same bits however the work is
// divided.
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "runtime-shim/devices/executors.h"
#include "runtime-shim/reference/host_executor.h"
#include "tests/runtime-shim/executor/desk.h"

namespace moepack::runtime {
namespace {

using Floats = std::vector<float>;

std::unique_ptr<Executor> Cpu(uint32_t threads, bool packed = false) {
  auto executor = OpenExecutor("cpu", {.threads = threads, .packed = packed});
  EXPECT_TRUE(executor.has_value());
  return std::move(*executor);
}

// Products, attention and rows that are large enough for several threads.
Floats LayerOn(Executor& executor) {
  Desk desk(executor);
  const Rows x = desk.Random({170, 512}), queries = desk.Random({170, 203});
  executor.MatMul(desk.Weights(*quant::FindFormat("q4_K"), 203, 512), x, queries);
  const Rows cache = desk.Random({200, 58}), out = desk.Random({170, 203});
  executor.Attention({7, 2, 29, 29, 30, 0, 0, 0.1f}, {queries.Columns(0, 174), cache, cache, {}},
                     out.Columns(0, 174));
  executor.Activate(Activation::kSilu, out, queries);
  return desk.Take(out).values;
}

TEST(CpuExecutor, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const bool packed : {false, true}) {
    const Floats alone = LayerOn(*Cpu(1, packed));
    for (const uint32_t threads : {2u, 3u, 8u})
      EXPECT_EQ(LayerOn(*Cpu(threads, packed)), alone) << threads << " threads, packed " << packed;
  }
}

// Several pieces of weights, the last of them with part of a panel, into columns of wider rows.
TEST(CpuExecutor, MultipliesInPanels) {
  const auto multiply = [](Executor& executor) {
    Desk desk(executor);
    const Rows x = desk.Random({70, 512}), y = desk.Random({70, 310});
    executor.MatMul(desk.Weights(*quant::FindFormat("q4_K"), 300, 512), x, y.Columns(4, 300));
    return desk.Take(y).values;
  };
  const Floats plain = multiply(*Cpu(2)), packed = multiply(*Cpu(2, /*packed=*/true));
  EXPECT_NE(packed, plain);
  for (size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(packed[i], plain[i], 1e-3) << i;
}

// A type of weights, and whether they are packed.
class CpuProducts : public ::testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  // More columns than are added up at once (dots.h).
  static constexpr uint32_t kRows = 37, kColumns = 2816, kTokens = 11;
  CpuProducts() {
    executor_->MatMul(weights_, x_, y_);
    whole_ = desk_.Take(y_).values;
  }
  // The bits of MatMul for some rows and some tokens, beside those of the whole product.
  void ExpectSame(const Matrix& weights, uint32_t first_row, uint32_t first_token,
                  uint32_t tokens) {
    const Rows y = desk_.Random({tokens, weights.rows});
    executor_->MatMul(weights, x_.Slice(first_token, tokens), y);
    const Floats part = desk_.Take(y).values;
    for (uint32_t t = 0; t < tokens; ++t) {
      EXPECT_EQ(std::memcmp(&part[size_t{t} * weights.rows],
                            &whole_[size_t{first_token + t} * kRows + first_row],
                            weights.rows * sizeof(float)),
                0)
          << weights.rows << " rows from " << first_row << ", token " << first_token + t;
    }
  }
  Matrix Part(uint32_t first, uint32_t rows) const {
    Matrix part = weights_;
    part.offset += first * weights_.row_bytes();
    part.rows = rows;
    return part;
  }

  std::unique_ptr<Executor> executor_ = Cpu(2, std::get<bool>(GetParam()));
  Desk desk_{*executor_};
  Matrix weights_ =
      desk_.Weights(*quant::FindFormat(std::get<const char*>(GetParam())), kRows, kColumns);
  Rows x_ = desk_.Random({kTokens, kColumns}), y_ = desk_.Random({kTokens, kRows});
  Floats whole_;
};

// A bundle has some rows of a router; masking has all of them.
TEST_P(CpuProducts, RowsDoNotDependOnTheirNeighbours) {
  for (uint32_t first = 0; first < kRows; first += 5) {
    for (const uint32_t rows : {1u, 2u, 5u, 6u, 17u}) {
      if (first + rows <= kRows) ExpectSame(Part(first, rows), first, 0, kTokens);
    }
  }
}

TEST_P(CpuProducts, TokensDoNotDependOnTheirNeighbours) {
  for (uint32_t first = 0; first < kTokens; ++first) {
    for (const uint32_t tokens : {1u, 2u, 3u, 4u, 7u}) {
      if (first + tokens <= kTokens) ExpectSame(weights_, 0, first, tokens);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CpuProducts,
                         ::testing::Combine(::testing::Values("f32", "bf16", "q8_0", "q6_K", "q4_K",
                                                              "q5_0"),
                                            ::testing::Bool()));

// One token after another gives the same bits as all at once.
TEST(CpuExecutor, AttendsTheSameWayInAnyBatch) {
  const auto executor = Cpu(2);
  Desk desk(*executor);
  const Rows queries = desk.Random({9, 8 * 40}), cache = desk.Random({20, 4 * 40});
  const Rows at_once = desk.Random({9, 8 * 40}), one_by_one = desk.Random({9, 8 * 40});
  AttentionShape shape = {8, 4, 40, 40, 11, 0, 0, 0.15f};
  executor->Attention(shape, {queries, cache, cache, {}}, at_once);
  for (uint32_t t = 0; t < 9; ++t, ++shape.past)
    executor->Attention(shape, {queries.Slice(t, 1), cache, cache, {}}, one_by_one.Slice(t, 1));
  EXPECT_EQ(desk.Take(at_once).values, desk.Take(one_by_one).values);
}

// Safetensors files guarantee no alignment.
TEST(CpuExecutor, ReadsFloatsAtOddAddresses) {
  const auto executor = Cpu(1);
  Desk desk(*executor);
  const Floats values = desk.Normal(6 * 33);
  std::vector<std::byte> shifted(1 + values.size() * sizeof(float));
  std::memcpy(&shifted[1], values.data(), shifted.size() - 1);
  const auto buffer = *executor->Load(shifted),
             aligned = *executor->Load(std::as_bytes(std::span(values)));
  const quant::Format* f32 = quant::FindFormat("f32");
  const Rows x = desk.Random({2, 33}), y = desk.Random({2, 6}), z = desk.Random({2, 6});
  executor->MatMul({buffer.get(), 1, f32, 6, 33}, x, y);
  executor->MatMul({aligned.get(), 0, f32, 6, 33}, x, z);
  EXPECT_EQ(desk.Take(y).values, desk.Take(z).values);
  executor->AddBias(x, {buffer.get(), 1, f32, 1, 33});
  std::vector<float> scratch;
  EXPECT_EQ(FloatsOf({aligned.get(), 0, f32, 6, 33}, 0, 6, scratch).data(), values.data());
}

TEST(CpuExecutor, SupportsEveryTypeThatCanBeDecoded) {
  const auto executor = Cpu(1);
  EXPECT_TRUE(executor->Supports(quant::FindFormat("f64")));
  EXPECT_TRUE(executor->Supports(quant::FindFormat("mxfp4")));
  EXPECT_FALSE(executor->Supports(quant::FindFormat("q1_0")));
  EXPECT_FALSE(executor->Supports(nullptr));
}

TEST(CpuExecutor, RefusesMoreMemoryThanThereIs) {
  const auto executor = Cpu(1);
  for (const uint64_t bytes : {UINT64_MAX, uint64_t{1} << 63}) {
    const auto buffer = executor->Allocate(bytes);
    ASSERT_FALSE(buffer.has_value());
    EXPECT_EQ(buffer.error().code, Code::kUnavailable);
    EXPECT_NE(buffer.error().message.find(std::to_string(bytes)), std::string::npos);
    EXPECT_FALSE(buffer.error().hint.empty());
  }
  EXPECT_TRUE(executor->Allocate(0).has_value());
}

TEST(CpuExecutor, IsOneDevice) {
  const auto second = OpenExecutor("cpu", {.device = 1});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_EQ(second.error().message, "cpu: device: expected 0, found 1");
  EXPECT_EQ(Cpu(1)->name(), "cpu");
  EXPECT_NE(Cpu(1)->description().find("1 thread, "), std::string::npos);
  EXPECT_EQ(Cpu(1)->available(), UINT64_MAX);
}

TEST(OpenExecutor, RefusesUnknownNames) {
  const auto executor = OpenExecutor("tpu", {});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kInvalidArgument);
  EXPECT_NE(executor.error().message.find("found \"tpu\""), std::string::npos);
}

}  // namespace
}  // namespace moepack::runtime
