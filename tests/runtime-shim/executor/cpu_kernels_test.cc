// Every kernel of the executor on the CPU, on every instruction set: near the reference, and the
// same bits however a batch is cut.
#include <gtest/gtest.h>

#include <cstring>

#include "libshard/graph/model_spec.h"
#include "quant/format.h"
#include "runtime-shim/session/session.h"
#include "tests/quant/same_bytes.h"
#include "tests/runtime-shim/executor/conformance.h"
#include "tests/runtime-shim/executor/expert_desk.h"
#include "tests/runtime-shim/support/tiny_weights.h"

namespace moepack::runtime {
namespace {

// Several layers after each other.
constexpr double kLogits = 1e-3;

class CpuKernels : public quant::EachInstructionSet {
 protected:
  static std::unique_ptr<Executor> OnThreads(uint32_t threads) {
    auto executor = OpenExecutor("cpu", {.threads = threads});
    EXPECT_TRUE(executor.has_value());
    return std::move(*executor);
  }

  // Opened on the instruction set of the test.
  Executor& cpu() {
    if (cpu_ == nullptr) cpu_ = OnThreads(2);
    return *cpu_;
  }

  void Check(double tolerance, const Operation& operation) {
    ReferenceExecutor reference;
    const Outcome expected = OutcomeOn(reference, operation), found = OutcomeOn(cpu(), operation);
    ExpectNear(found.values, expected.values, tolerance);
    EXPECT_EQ(found.around, expected.around);
  }

 private:
  std::unique_ptr<Executor> cpu_;
};

// More columns than are added up at once, and rows and tokens that no kernel's sizes divide.
TEST_P(CpuKernels, ProductsAreNearTheReferenceInEveryFormat) {
  for (const quant::Format& format : quant::AllFormats()) {
    // As in products_test.cc.
    if (format.decode == nullptr || (format.encode == nullptr && format.block_bytes != 1)) continue;
    const bool blocks = format.block_values > 1;
    for (const uint32_t tokens : {1u, 2u, 11u}) {
      SCOPED_TRACE(std::string(format.name) + ", " + std::to_string(tokens) + " tokens");
      Check(kProduct, [&](Desk& desk) {
        const uint32_t columns = blocks ? 2816 : 2829;
        const Rows x = desk.Random({tokens, columns, 3, 2}), y = desk.Random({tokens, 37, 2, 1});
        desk.executor().MatMul(desk.Weights(format, 37, columns), x, y);
        return y;
      });
    }
  }
}

TEST_P(CpuKernels, ProductsHaveTheBitsOfTheirPartsInAnyBatch) {
  for (const char* name : {"f32", "bf16", "q8_0", "q6_K", "q4_K", "iq2_xs", "mxfp4"}) {
    Desk desk(cpu());
    const Matrix weights = desk.Weights(*quant::FindFormat(name), 37, 2816);
    const Rows x = desk.Random({11, 2816}), y = desk.Random({11, 37});
    cpu().MatMul(weights, x, y);
    const std::vector<float> whole = desk.Take(y).values;
    for (const uint32_t tokens : {1u, 2u, 3u, 7u}) {
      Matrix part = weights;
      part.offset += 5 * weights.row_bytes();
      part.rows = 17;
      const Rows some = desk.Random({tokens, 17});
      cpu().MatMul(part, x.Slice(4, tokens), some);
      const std::vector<float> found = desk.Take(some).values;
      for (uint32_t t = 0; t < tokens; ++t) {
        EXPECT_EQ(std::memcmp(&found[t * 17], &whole[(4 + t) * 37 + 5], 17 * sizeof(float)), 0)
            << name << ", token " << t << " of " << tokens;
      }
    }
  }
}

TEST_P(CpuKernels, RowsAreNearTheReference) {
  for (const uint32_t width : {1u, 7u, 64u, 203u}) {
    Check(kNorm, [&](Desk& desk) {
      const Rows x = desk.Random({9, width, 3, 2}), y = desk.Random({9, width, 1, 3});
      desk.executor().RmsNorm(x, {desk.Vector(width), desk.Vector(width), 1e-5f}, y);
      return y;
    });
    for (const Activation activation :
         {Activation::kSilu, Activation::kGelu, Activation::kClampedSilu}) {
      Check(kFunction, [&](Desk& desk) {
        const Rows gate = desk.Random({9, width, 3, 2}, 3), up = desk.Random({9, width, 1, 3});
        desk.executor().Activate(activation, gate, up);
        return gate;
      });
    }
  }
}

TEST_P(CpuKernels, AttentionIsNearTheReferenceAndTheSameInAnyBatch) {
  for (const uint32_t width : {29u, 64u}) {
    const AttentionShape shape = {8, 2, width, width, 11, 0, 0, 0.15f};
    const AttentionShape windowed = {8, 2, width, width, 11, 5, 0, 0.15f};
    for (const AttentionShape& one : {shape, windowed}) {
      Check(kAttention, [&](Desk& desk) {
        const Rows queries = desk.Random({9, 8 * width}), cache = desk.Random({20, 2 * width});
        const Rows out = desk.Random({9, 8 * width, 2, 1});
        desk.executor().Attention(one, {queries, cache, cache, desk.Vector(8)}, out);
        return out;
      });
    }
    Desk desk(cpu());
    const Rows queries = desk.Random({9, 8 * width}), cache = desk.Random({20, 2 * width});
    const Rows at_once = desk.Random({9, 8 * width}), one_by_one = desk.Random({9, 8 * width});
    AttentionShape next = shape;
    cpu().Attention(next, {queries, cache, cache, {}}, at_once);
    for (uint32_t t = 0; t < 9; ++t, ++next.past)
      cpu().Attention(next, {queries.Slice(t, 1), cache, cache, {}}, one_by_one.Slice(t, 1));
    EXPECT_EQ(desk.Take(at_once).values, desk.Take(one_by_one).values);
  }
}

TEST_P(CpuKernels, ExpertsAreNearTheReferenceAndTheSameInAnyBatch) {
  for (const ExpertShape& shape :
       {ExpertShape{}, ExpertShape{"f32", 70, true, false, Activation::kClampedSilu},
        ExpertShape{"bf16", 33, false, true, Activation::kSilu},
        ExpertShape{"q4_0", 160, true, true, Activation::kGelu}}) {
    Check(kMlp, [&](Desk& desk) { return DeskExperts(desk, shape).Mix(0, kExpertTokens); });
    std::vector<float> whole;
    for (const uint32_t threads : {1u, 3u}) {
      const auto executor = OnThreads(threads);
      Desk desk(*executor);
      DeskExperts experts(desk, shape);
      const std::vector<float> all = desk.Take(experts.Mix(0, kExpertTokens)).values;
      if (whole.empty()) whole = all;
      EXPECT_EQ(all, whole) << threads << " threads";
      for (uint32_t first = 0; first < kExpertTokens; first += 3) {
        const uint32_t count = std::min(3u, kExpertTokens - first);
        const std::vector<float> part = desk.Take(experts.Mix(first, count)).values;
        EXPECT_EQ(std::memcmp(part.data(), &whole[size_t{first} * kExpertWidth],
                              part.size() * sizeof(float)),
                  0)
            << "from token " << first;
      }
    }
  }
}

// The logits of all tokens of a text, `batch` tokens at a time.
std::vector<float> LogitsOn(Executor& executor, const Weights& weights, uint32_t batch) {
  constexpr uint32_t kText[] = {3, 17, 5, 5, 39, 0, 21, 8, 30, 2, 11};
  const auto model = Model::Load(std::make_shared<Weights>(weights), executor);
  EXPECT_TRUE(model.has_value()) << (model ? "" : model.error().message);
  SessionOptions options;
  options.batch = batch;
  const ExpertIds all = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto session = Session::Open(**model, {{0, all}, {1, all}}, options);
  EXPECT_TRUE(session.has_value()) << (session ? "" : session.error().message);
  const auto logits = (*session)->Feed(kText, LogitsOf::kAll);
  EXPECT_TRUE(logits.has_value()) << (logits ? "" : logits.error().message);
  return logits ? *logits : std::vector<float>{};
}

TEST_P(CpuKernels, SessionsAreNearTheReferenceAndTheSameInAnyBatch) {
  for (const RuntimeFamily& family : AllRuntimeFamilies()) {
    const std::string name(family.architecture);
    SCOPED_TRACE(name);
    const auto weights = TinyWeights(name);
    ReferenceExecutor reference;
    const std::vector<float> whole = LogitsOn(cpu(), *weights, 128);
    ExpectNear(whole, LogitsOn(reference, *weights, 128), kLogits);
    for (const uint32_t batch : {1u, 3u}) EXPECT_EQ(LogitsOn(cpu(), *weights, batch), whole);
  }
}

FOR_EACH_INSTRUCTION_SET(CpuKernels);

}  // namespace
}  // namespace moepack::runtime
