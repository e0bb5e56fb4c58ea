// Products and rows of weights in every format that can be decoded, on every executor, against the
// reference.
#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>

#include "tests/runtime-shim/executor/conformance.h"

namespace moepack::runtime {
namespace {

class ExecutorProducts
    : public ConformanceFixture,
      public ::testing::WithParamInterface<std::tuple<ExecutorKind, std::string_view>> {
 protected:
  void SetUp() override {
    Open(std::get<0>(GetParam()));
    if (executor_ == nullptr) return;
    ASSERT_TRUE(executor_->Supports(&format())) << executor_->name() << ": " << format().name;
  }

  const quant::Format& format() const { return *quant::FindFormat(std::get<1>(GetParam())); }
  // About `columns`, in whole blocks; odd if blocks allow it.
  uint32_t WholeBlocks(uint32_t columns) const {
    const uint32_t unit = format().block_values == 1 ? 37 : format().block_values;
    return std::max(1u, columns / unit) * unit;
  }
};

struct Product {
  uint32_t rows, columns, tokens;
};

// One block, an odd number of them, one token and several, more of each than a tile has; few rows
// with many columns, which executors may divide.
constexpr Product kProducts[] = {{1, 1, 1},      {7, 96, 1},    {67, 768, 3},
                                 {130, 1024, 1}, {65, 512, 37}, {5, 4096, 2},
                                 {33, 256, 130}, {9, 1400, 20}, {9, 1400, 70}};

TEST_P(ExecutorProducts, MultiplyLikeTheReference) {
  for (const Product& product : kProducts) {
    const uint32_t columns = WholeBlocks(product.columns);
    SCOPED_TRACE(::testing::Message()
                 << product.rows << " x " << columns << ", " << product.tokens << " tokens");
    Check(kProduct, [&](Desk& desk) {
      const Matrix weights = desk.Weights(format(), product.rows, columns);
      const Rows x = desk.Random({product.tokens, columns, 3, 5});
      const Rows y = desk.Random({product.tokens, product.rows, 2, 1});
      desk.executor().MatMul(weights, x, y);
      return y;
    });
  }
}

TEST_P(ExecutorProducts, PropagateNan) {
  Check(kProduct, [&](Desk& desk) {
    const uint32_t columns = WholeBlocks(64);
    const Rows x = desk.Random({6, columns});
    desk.Plant(x, 4, columns / 2, std::numeric_limits<float>::quiet_NaN());
    const Rows y = desk.Random({6, 9});
    desk.executor().MatMul(desk.Weights(format(), 9, columns), x, y);
    return y;
  });
}

TEST_P(ExecutorProducts, PropagateNanOfOneTokenOfMany) {
  Check(kProduct, [&](Desk& desk) {
    const uint32_t columns = WholeBlocks(1400);
    const Rows x = desk.Random({20, columns});
    desk.Plant(x, 11, columns / 2, std::numeric_limits<float>::quiet_NaN());
    const Rows y = desk.Random({20, 9});
    desk.executor().MatMul(desk.Weights(format(), 9, columns), x, y);
    return y;
  });
}

TEST_P(ExecutorProducts, EmbedLikeTheReference) {
  for (const uint32_t columns : {WholeBlocks(1), WholeBlocks(300), WholeBlocks(2048)}) {
    SCOPED_TRACE(columns);
    Check(kRounded, [&](Desk& desk) {
      const Matrix weights = desk.Weights(format(), 11, columns);
      const Rows y = desk.Random({5, columns, 7, 2});
      desk.executor().Embed(weights, std::vector<uint32_t>{10, 0, 3, 3, 9}, y);
      return y;
    });
  }
}

// F64 is left out: the desk has no encoder for it, and no model has such weights.
std::vector<std::string_view> Decodable() {
  std::vector<std::string_view> formats;
  for (const quant::Format& format : quant::AllFormats()) {
    if (format.decode != nullptr && (format.encode != nullptr || format.block_bytes == 1))
      formats.push_back(format.name);
  }
  return formats;
}

std::string ProductName(const ::testing::TestParamInfo<ExecutorProducts::ParamType>& parameters) {
  const auto& [kind, format] = parameters.param;
  return std::string(kind.name) + "_" + std::string(format);
}

INSTANTIATE_TEST_SUITE_P(, ExecutorProducts,
                         ::testing::Combine(::testing::ValuesIn(AllExecutorKinds()),
                                            ::testing::ValuesIn(Decodable())),
                         ProductName);

TEST(ExecutorFormats, CoverEveryDocumentedFormat) {
  const auto formats = Decodable();
  for (const char* name :
       {"f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "q8_0", "q6_K", "q5_K", "q4_K", "q3_K", "q2_K",
        "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "iq4_xs", "mxfp4"}) {
    EXPECT_EQ(std::count(formats.begin(), formats.end(), name), 1) << name;
  }
}

}  // namespace
}  // namespace moepack::runtime
