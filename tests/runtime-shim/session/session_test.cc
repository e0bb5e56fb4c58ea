#include "runtime-shim/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime-shim/devices/executors.h"
#include "runtime-shim/reference/reference.h"
#include "tests/runtime-shim/support/tiny_weights.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

constexpr uint32_t kTokens[] = {3, 17, 5, 5, 39, 0, 21, 8, 30, 2, 11};

const char* const kArchitectures[] = {
    "llama",        "qwen2moe",    "qwen3moe",   "olmoe",          "deepseek2",    "glm4moe",
    "gpt-oss",      "llama4",      "minimax-m2", "granitemoe",     "phimoe",       "dots1",
    "ernie4_5-moe", "hunyuan-moe", "bailingmoe", "bailingmoe2",    "qwen3next",    "qwen35moe",
    "mimo2",        "deepseek32",  "glm-dsa",    "nemotron_h_moe", "gemma4",       "step35",
    "mistral4",     "bailingmoe3", "exaone-moe", "afmoe",          "smallthinker", "grovemoe",
    "minimax-m3",   "cohere2moe",  "hy_v3",      "laguna",         "lfm2moe",      "granitehybrid",
    "qwen3vlmoe",   "deepseek4",   "qwen4exp",   "kimi-k3"};

LayerExperts Both(const ExpertIds& ids) { return {{0, ids}, {1, ids}}; }
const ExpertIds kAll = {0, 1, 2, 3, 4, 5, 6, 7};

// A model on an executor, and everything it needs.
struct Loaded {
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Model> model;
};

Loaded Load(std::shared_ptr<const Weights> weights, const std::string& executor = "cpu") {
  Loaded loaded;
  auto opened = OpenExecutor(executor, {});
  EXPECT_TRUE(opened.has_value());
  loaded.executor = std::move(*opened);
  auto model = Model::Load(std::move(weights), *loaded.executor);
  EXPECT_TRUE(model.has_value()) << (model ? "" : model.error().message);
  if (model) loaded.model = std::move(*model);
  return loaded;
}

std::unique_ptr<Session> Open(const Loaded& loaded, const LayerExperts& eligible,
                              SessionOptions options = {}) {
  auto session = Session::Open(*loaded.model, eligible, options);
  EXPECT_TRUE(session.has_value()) << (session ? "" : session.error().message);
  return session ? std::move(*session) : nullptr;
}

std::vector<float> Logits(const Loaded& loaded, const LayerExperts& eligible,
                          SessionOptions options = {}) {
  auto logits = Open(loaded, eligible, options)->Feed(kTokens, LogitsOf::kAll);
  EXPECT_TRUE(logits.has_value()) << (logits ? "" : logits.error().message);
  return logits ? *logits : std::vector<float>{};
}

class EveryArchitecture : public testing::TestWithParam<const char*> {};

TEST_P(EveryArchitecture, GivesFiniteLogitsThatDependOnTheTokensBefore) {
  const Loaded loaded = Load(TinyWeights(GetParam()));
  const std::vector<float> logits = Logits(loaded, Both(kAll));
  ASSERT_EQ(logits.size(), std::size(kTokens) * 40);
  for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
  // Tokens 2 and 3 are equal, but the tokens before them are not.
  EXPECT_NE(logits[2 * 40], logits[3 * 40]);
}

TEST_P(EveryArchitecture, GivesTheSameBitsTokenByTokenAndInBatches) {
  const Loaded loaded = Load(TinyWeights(GetParam()));
  const std::vector<float> whole = Logits(loaded, Both(kAll));
  SessionOptions three;
  three.batch = 3;
  EXPECT_EQ(whole, Logits(loaded, Both(kAll), three));
  SessionOptions one;
  one.batch = 1;
  EXPECT_EQ(whole, Logits(loaded, Both(kAll), one));
}

TEST_P(EveryArchitecture, CutExpertsMatchMaskedOnesBitForBit) {
  const ExpertIds ids = {1, 2, 5, 7};
  const auto weights = TinyWeights(GetParam());
  const std::vector<float> masked = Logits(Load(weights), Both(ids));
  EXPECT_EQ(masked, Logits(Load(WithExperts(*weights, ids)), Both(ids)));
  EXPECT_NE(masked, Logits(Load(weights), Both(kAll)));
}

TEST_P(EveryArchitecture, ExpertsInDifferentPlacesGiveTheSameBits) {
  const auto weights = TinyWeights(GetParam());
  const auto apart = WithExpertsApart(*weights);
  const std::vector<HostTensor>& tensors = apart->sets[0].tensors;
  EXPECT_TRUE(std::any_of(tensors.begin(), tensors.end(), [](const HostTensor& tensor) {
    return tensor.bytes.views().size() == kAll.size();
  }));
  const std::vector<float> whole = Logits(Load(weights), Both(kAll));
  EXPECT_EQ(whole, Logits(Load(apart), Both(kAll)));
  EXPECT_EQ(Load(apart).model->device_bytes(), Load(weights).model->device_bytes());
}

TEST_P(EveryArchitecture, RunsAgainAfterARewind) {
  const Loaded loaded = Load(TinyWeights(GetParam()));
  const auto session = Open(loaded, Both(kAll));
  const auto first = session->Feed(kTokens, LogitsOf::kLast);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(session->length(), std::size(kTokens));
  session->Rewind(4);
  const auto again = session->Feed(std::span(kTokens).subspan(4), LogitsOf::kLast);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*first, *again);
}

TEST(Session, RefusesATableWithoutTheRowsThatNgramsPick) {
  const auto weights = TinyWeights("qwen4exp");
  weights->metadata.Set("qwen4exp.ple.head_offsets",
                        GgufValue::U64s(std::vector<uint64_t>{0, 7, 14, 22}));
  const auto executor = OpenExecutor("cpu", {});
  ASSERT_TRUE(executor.has_value());
  const auto model = Model::Load(weights, **executor);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, Code::kCorrupt);
  EXPECT_EQ(model.error().message,
            "tiny: \"per_layer_token_embd.weight\": expected rows from 22 on for head 3, which has "
            "7, found 28 rows");
}

// A token sees all keys up to the fifth, then two blocks of two and the one since the last block.
TEST(Session, PooledBlocksLeaveKeysOutOnlyInLongContexts) {
  const auto own = TinyWeights("qwen4exp"), all = TinyWeights("qwen4exp");
  all->metadata.Set("qwen4exp.attention.indexer.top_k", GgufValue::U32(64));
  const std::vector<float> logits = Logits(Load(own), Both(kAll)),
                           other = Logits(Load(all), Both(kAll));
  const size_t whole = 5 * 40;
  EXPECT_TRUE(std::equal(logits.begin(), logits.begin() + whole, other.begin()));
  EXPECT_FALSE(
      std::equal(logits.begin() + whole, logits.begin() + whole + 40, other.begin() + whole));
}

// The indexer of the first layer picks four positions for both layers.
TEST(Session, LayersThatShareAnIndexerSeeWhatItPicked) {
  const auto own = TinyWeights("glm-dsa");
  const auto shared = TinyWeights("glm-dsa");
  shared->metadata.Set("glm-dsa.attention.indexer.types", GgufValue::Bools({true, false}));
  std::erase_if(shared->trunk,
                [](const HostTensor& tensor) { return tensor.name.starts_with("blk.1.indexer."); });
  const Loaded loaded = Load(shared);
  const std::vector<float> logits = Logits(loaded, Both(kAll)),
                           other = Logits(Load(own), Both(kAll));
  SessionOptions three;
  three.batch = 3;
  EXPECT_EQ(logits, Logits(loaded, Both(kAll), three));
  const size_t whole = 4 * 40;  // the first four tokens see everything
  EXPECT_TRUE(std::equal(logits.begin(), logits.begin() + whole, other.begin()));
  EXPECT_NE(logits, other);
}

// With a top-k as large as the text, nothing is left out.
TEST(Session, AnIndexerThatPicksEverythingChangesNothing) {
  const auto some = TinyWeights("glm-dsa"), all = TinyWeights("glm-dsa");
  all->metadata.Set("glm-dsa.attention.indexer.top_k", GgufValue::U32(std::size(kTokens)));
  const auto unused = TinyWeights("glm-dsa");
  unused->metadata.Set("glm-dsa.attention.indexer.top_k", GgufValue::U32(100));
  const std::vector<float> logits = Logits(Load(all), Both(kAll));
  EXPECT_EQ(logits, Logits(Load(unused), Both(kAll)));
  EXPECT_NE(logits, Logits(Load(some), Both(kAll)));
}

// Two blocks of four tokens are complete, of which the indexer of the first layer picks one.
TEST(Session, ACompressedKeyIsSeenFromTheEndOfItsBlockOn) {
  const auto weights = TinyWeights("deepseek4"), other = TinyWeights("deepseek4");
  ValueOf(*other, "blk.0.attn_compressor_norm.weight", 0) += 3;
  const std::vector<float> logits = Logits(Load(weights), Both(kAll)),
                           found = Logits(Load(other), Both(kAll));
  const size_t before = 3 * 40;
  EXPECT_TRUE(std::equal(logits.begin(), logits.begin() + before, found.begin()));
  EXPECT_FALSE(
      std::equal(logits.begin() + before, logits.begin() + before + 40, found.begin() + before));
  const auto all = TinyWeights("deepseek4"), unused = TinyWeights("deepseek4");
  all->metadata.Set("deepseek4.attention.indexer.top_k", GgufValue::U32(2));
  unused->metadata.Set("deepseek4.attention.indexer.top_k", GgufValue::U32(100));
  const std::vector<float> seen = Logits(Load(all), Both(kAll));
  EXPECT_EQ(seen, Logits(Load(unused), Both(kAll)));
  EXPECT_NE(seen, logits);
}

TEST(Session, RefusesAnExpertThatATableNamesAndANodeLacks) {
  const Loaded loaded = Load(TinyWeights("deepseek4"));
  const auto logits = Open(loaded, Both({2, 3, 5, 7}))->Feed(kTokens, LogitsOf::kLast);
  ASSERT_FALSE(logits.has_value());
  EXPECT_EQ(logits.error().code, Code::kInvalidArgument);
  EXPECT_EQ(logits.error().message,
            "tiny: layer 0: router: chosen expert: expected an eligible one, found 1");
}

// As that of token 0 does; its gate is the sum of both.
TEST(Session, ATableMayNameAnExpertTwice) {
  struct Chosen : RoutingObserver {
    void Observe(const RoutedBatch& batch) override {
      if (batch.layer != 0) return;
      EXPECT_TRUE(batch.by_table);
      for (const Selection& selection : batch.chosen) chosen.push_back(selection);
    }
    std::vector<Selection> chosen;
  } observer;
  SessionOptions options;
  options.observer = &observer;
  Logits(Load(TinyWeights("deepseek4")), Both(kAll), options);
  ASSERT_EQ(observer.chosen.size(), std::size(kTokens));
  // Token 3: row 3 of the table.
  EXPECT_THAT(observer.chosen[0].ids, testing::ElementsAre(7, 1));
  EXPECT_THAT(observer.chosen[5].ids, testing::ElementsAre(1, 1));
  EXPECT_FLOAT_EQ(observer.chosen[5].weights[0], observer.chosen[5].weights[1]);
  EXPECT_NEAR(observer.chosen[5].weights[0], 0.5, 1e-6);
}

TEST(EveryArchitecture, IsOneThatRuns) {
  std::vector<std::string> names, run;
  for (const char* name : kArchitectures) names.emplace_back(name);
  for (const RuntimeFamily& family : AllRuntimeFamilies()) run.emplace_back(family.architecture);
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(run));
}

std::string NameOf(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Session, EveryArchitecture, testing::ValuesIn(kArchitectures), NameOf);

// If attention and experts output zero, the first position depends only on the embedding of token
// 3: the model is output * norm(embedding), which can be calculated here.
TEST(Session, GivesTheProductOfTheEmbeddingIfNothingIsAdded) {
  const auto weights = TinyWeights("qwen3moe");
  for (const HostTensor& tensor : weights->trunk) {
    if (tensor.name.find("attn_output") == std::string::npos) continue;
    for (size_t i = 0; i < tensor.bytes.size() / 4; ++i) ValueOf(*weights, tensor.name, i) = 0;
  }
  for (const HostTensor& tensor : weights->sets[0].tensors) {
    if (tensor.name.find("down") == std::string::npos) continue;
    for (size_t i = 0; i < tensor.bytes.size() / 4; ++i) ValueOf(*weights, tensor.name, i) = 0;
  }
  const std::vector<float> logits = Logits(Load(weights), Both(kAll));
  double squares = 0, product = 0;
  for (size_t i = 0; i < 32; ++i) {
    const double value = ValueOf(*weights, "token_embd.weight", 3 * 32 + i);
    squares += value * value;
    product += value * ValueOf(*weights, "output_norm.weight", i) *
               ValueOf(*weights, "output.weight", 7 * 32 + i);
  }
  EXPECT_NEAR(logits[7], product / std::sqrt(squares / 32 + 1e-5), 1e-5);
}

TEST(Session, RefusesFewerEligibleExpertsThanTopK) {
  const Loaded loaded = Load(TinyWeights("qwen3moe"));
  const auto session = Session::Open(*loaded.model, {{0, {1, 2}}, {1, {3}}}, {});
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, Code::kInvalidArgument);
  EXPECT_EQ(session.error().message,
            "tiny: layer 1: eligible experts: expected at least 2 (experts per token), found 1");
}

TEST(Session, RefusesExpertsThatAreNotLoaded) {
  const auto weights = TinyWeights("qwen3moe");
  const Loaded loaded = Load(WithExperts(*weights, {1, 2, 5}));
  const auto session = Session::Open(*loaded.model, Both({1, 2, 3}), {});
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().message,
            "tiny: layer 0: expert 3: expected to be loaded, found in no part");
}

TEST(Session, RefusesTokensThatDoNotFit) {
  const Loaded loaded = Load(TinyWeights("qwen3moe"));
  SessionOptions options;
  options.context = 4;
  const auto session = Open(loaded, Both(kAll), options);
  EXPECT_EQ(session->Feed({}, LogitsOf::kLast).error().message,
            "tiny: tokens: expected at least 1, found none");
  EXPECT_EQ(session->Feed(kTokens, LogitsOf::kLast).error().message,
            "tiny: tokens: expected at most 4 more in a context of 4, found 11");
  const uint32_t outside[] = {40};
  EXPECT_EQ(session->Feed(outside, LogitsOf::kLast).error().message,
            "tiny: token: expected an id below 40, found 40");
  EXPECT_EQ(session->length(), 0u);
}

TEST(Session, RefusesAContextBeyondTheModels) {
  const Loaded loaded = Load(TinyWeights("qwen3moe"));
  SessionOptions options;
  options.context = 129;
  const auto session = Session::Open(*loaded.model, Both(kAll), options);
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().message, "tiny: context: expected at most 128 positions, found 129");
}

TEST(Session, NamesLayerAndOperationOfTheFirstNan) {
  const auto weights = TinyWeights("qwen3moe");
  ValueOf(*weights, "blk.1.attn_v.weight", 5) = std::numeric_limits<float>::quiet_NaN();
  const auto session = Open(Load(weights), Both(kAll));
  const Loaded loaded = Load(weights);
  const auto logits = Open(loaded, Both(kAll))->Feed(kTokens, LogitsOf::kLast);
  ASSERT_FALSE(logits.has_value());
  EXPECT_EQ(logits.error().code, Code::kCorrupt);
  EXPECT_EQ(
      logits.error().message,
      "tiny: layer 1: values: expected finite numbers, found nan for the token at position 0");
}

TEST(Session, NamesTheExpertThatGivesNan) {
  const auto weights = TinyWeights("qwen3moe");
  for (size_t i = 0; i < 8 * 32 * 16; ++i)
    ValueOf(*weights, "blk.0.ffn_down_exps.weight", i) = std::numeric_limits<float>::infinity();
  const Loaded loaded = Load(weights);
  const auto logits = Open(loaded, Both(kAll))->Feed(kTokens, LogitsOf::kLast);
  ASSERT_FALSE(logits.has_value());
  EXPECT_THAT(logits.error().message, HasSubstr("layer 0: experts: expected finite numbers"));
}

TEST(Model, NamesMissingMisshapenAndUnusedTensors) {
  const auto executor = OpenExecutor("cpu", {});
  auto weights = TinyWeights("qwen3moe");
  std::erase_if(weights->trunk,
                [](const HostTensor& tensor) { return tensor.name == "blk.1.attn_k.weight"; });
  EXPECT_EQ(Model::Load(weights, **executor).error().message,
            "tiny: \"blk.1.attn_k.weight\": expected a matrix of 16 x 32, found no such tensor");
  weights = TinyWeights("qwen3moe");
  for (HostTensor& tensor : weights->trunk) {
    if (tensor.name == "blk.0.attn_q.weight") tensor.shape = {16, 64};
  }
  EXPECT_EQ(Model::Load(weights, **executor).error().message,
            "tiny: \"blk.0.attn_q.weight\": expected a matrix of 32 x 32, found 16 x 64");
  weights = TinyWeights("qwen3moe");
  for (HostTensor& tensor : weights->trunk) {
    if (tensor.name == "token_embd.weight") tensor.shape = {uint64_t{1} << 31, 32};
  }
  EXPECT_EQ(Model::Load(weights, **executor).error().message,
            "tiny: \"token_embd.weight\": expected at most 2147483647 rows and columns, found "
            "2147483648 x 32");
  weights = TinyWeights("qwen3moe");
  weights->trunk.push_back(weights->trunk[0]);
  weights->trunk.back().name = "blk.0.surprise.weight";
  const auto model = Model::Load(weights, **executor);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("\"blk.0.surprise.weight\": expected only tensors"));
}

// Counts what is uploaded.
class CountingExecutor final : public ReferenceExecutor {
 public:
  Result<BufferPtr> Load(const TensorBytes& bytes) override {
    ++loads;
    return ReferenceExecutor::Load(bytes);
  }
  int loads = 0;
};

TEST(Model, RefusesATypeWithoutADecoderBeforeAnythingIsUploaded) {
  CountingExecutor executor;
  const auto weights = TinyWeights("qwen3moe");
  HostTensor& last = weights->sets.back().tensors.back();
  last.format = quant::FindFormat("q1_0");
  const auto model = Model::Load(weights, executor);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_EQ(model.error().message,
            "tiny: \"blk.1.ffn_down_exps.weight\": executor reference has no q1_0");
  EXPECT_EQ(executor.loads, 0);
}

TEST(Model, RefusesATopKAboveTheExperts) {
  const auto executor = OpenExecutor("cpu", {});
  const auto weights = TinyWeights("qwen3moe");
  weights->metadata.Set("qwen3moe.expert_used_count", GgufValue::U32(9));
  EXPECT_EQ(Model::Load(weights, **executor).error().message,
            "tiny: layer 0: experts per token: expected at most 8, found 9");
}

TEST(Model, HoldsSeveralGroupsAndAnOverlayOverOneTrunk) {
  const auto whole = TinyWeights("qwen3moe");
  auto weights = WithExperts(*whole, {0, 1, 2});
  ExpertSet second = WithExperts(*whole, {3, 4, 5})->sets[0];
  second.group = 1;
  const auto keep = WithExperts(*whole, {6});
  ExpertSet overlay = keep->sets[0];
  overlay.group.reset();
  overlay.overlay = true;
  const auto third = WithExperts(*whole, {3, 4, 5});
  second = third->sets[0];
  second.group = 1;
  weights->sets.push_back(second);
  weights->sets.push_back(overlay);
  const Loaded loaded = Load(weights);
  const Loaded full = Load(whole);
  EXPECT_EQ(Logits(loaded, Both({0, 1, 2, 6})), Logits(full, Both({0, 1, 2, 6})));
  EXPECT_EQ(Logits(loaded, Both({3, 4, 5, 6})), Logits(full, Both({3, 4, 5, 6})));
}

// Counts what it is shown.
class Counter final : public RoutingObserver {
 public:
  bool wants_outputs() const override { return true; }
  void Observe(const RoutedBatch& batch) override {
    tokens += batch.tokens;
    EXPECT_EQ(batch.logits.size(), batch.tokens * 8u);
    ASSERT_EQ(batch.output_norms.size(), batch.tokens * 2u);
    for (size_t i = 0; i < batch.output_norms.size(); ++i) {
      EXPECT_GT(batch.output_norms[i], 0);
      EXPECT_GT(batch.output_peaks[i], 0);
      EXPECT_LE(batch.output_peaks[i], batch.output_norms[i]);
    }
    for (const Selection& selection : batch.chosen) {
      EXPECT_EQ(selection.ids.size(), 2u);
      EXPECT_NEAR(selection.weights[0] + selection.weights[1], 1, 1e-5);
    }
  }
  size_t tokens = 0;
};

// A delta net of 4 value heads keeps a matrix of 6 x 6 for each, and 3 tokens before a convolution
// over 48 channels; only the first layer of the two has one.
TEST(Model, CountsTheStatesThatASessionHas) {
  EXPECT_EQ(Load(TinyWeights("qwen3next")).model->bytes_per_session(),
            (4 * 6 * 6 + 3 * 48) * sizeof(float));
  EXPECT_EQ(Load(TinyWeights("qwen3moe")).model->bytes_per_session(), 0u);
}

TEST(Session, ShowsObserversWhatRoutersDecide) {
  Counter counter;
  SessionOptions options;
  options.observer = &counter;
  options.batch = 4;
  const Loaded loaded = Load(TinyWeights("qwen3moe"));
  Logits(loaded, Both(kAll), options);
  EXPECT_EQ(counter.tokens, 2 * std::size(kTokens));  // two layers
}

}  // namespace
}  // namespace moepack::runtime
