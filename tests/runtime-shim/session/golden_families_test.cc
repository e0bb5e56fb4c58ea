// The families of golden/convert-2026: log-probabilities of the next token within 1e-4 of those
// that stock llama.cpp computes from the checkpoint in F32, with keys and values in F32
// (fixtures/golden/convert/<family>/stock-f32.json, which tests/peer/stock_f32.mjs writes). NOTE.md
// of each folder lists what llama.cpp computes in BF16 with half floats in its cache, which is
// near. A new family is one row of kGoldenFamilies and that file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <set>
#include <sstream>

#include "libshard/base/files/file.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/session/sampler.h"
#include "runtime-shim/session/session.h"
#include "tests/libshard/convert/golden_listing.h"

namespace moepack::runtime {
namespace {

struct GoldenFamily {
  const char* name;
  // Part of the error for a family that does not run, "" for one that does.
  const char* refusal = "";
  // How many of the tokens are compared.
  size_t tokens = 24;
  // There is a longer text, too: stock-f32-long.json.
  bool has_long_text = false;
};

constexpr GoldenFamily kGoldenFamilies[] = {
    {"afmoe"},
    {"cohere2moe"},
    // In the longer text all kinds of compressed keys are complete, and the indexer has to pick.
    {.name = "deepseek-v4", .has_long_text = true},
    {"exaone-moe"},
    {"glm-5.2"},
    {"granite-4-h"},
    {"grovemoe"},
    {"hy3"},
    {"kimi-k3"},
    {"laguna"},
    {"lfm2-moe"},
    {"ling-3"},
    // The file is made without flash attention, with which alone llama.cpp picks blocks: the first
    // two are all that a token sees (forward_blocks_test.cc has the others).
    {.name = "minimax-m3", .tokens = 8},
    {"mistral-4"},
    {"nemotron-3-puzzle"},
    {"qwen3-vl-moe"},
    // In the longer text the indexer picks a few of many blocks, and tokens end n-grams.
    {.name = "qwen3.8-flash-next", .has_long_text = true},
    {"smallthinker"},
    {"solar-open"},
};

void PrintTo(const GoldenFamily& family, std::ostream* out) { *out << family.name; }

constexpr double kTolerance = 1e-4;
// Half of the log-probabilities of NOTE.md are this near: rounding also changes what routers
// choose.
constexpr double kRounding = 0.01;

// A token, and what llama.cpp expects after it.
struct NotedToken {
  uint32_t id = 0, likeliest = 0;
  double log_probability = 0;
};
using NotedTokens = std::vector<NotedToken>;

// The rows of the first table.
NotedTokens ReadNote(const fs::path& path) {
  constexpr uint64_t kMostBytes = 1 << 20;
  NotedTokens tokens;
  std::istringstream text(ReadTextFile(path, kMostBytes).value());
  for (std::string line; std::getline(text, line);) {
    NotedToken token;
    size_t position = 0;
    const int read = std::sscanf(line.c_str(), "| %zu | %u | %u | %lf |", &position, &token.id,
                                 &token.likeliest, &token.log_probability);
    if (read != 4) continue;
    if (position != tokens.size()) break;
    tokens.push_back(token);
  }
  return tokens;
}

NotedTokens ReadStock(const std::string& family, const char* name = "stock-f32.json") {
  NotedTokens tokens;
  const Json file =
      golden::Read(fs::path(MOEPACK_SOURCE_DIR) / "fixtures/golden/convert" / family / name);
  for (const Json& row : file.at("token_likeliest_log_probability"))
    tokens.push_back({row.at(0), row.at(1), row.at(2)});
  return tokens;
}

fs::path FolderOf(const char* family) { return golden::Folder(family, "config.json"); }

// The largest difference from `tokens`, which are fed in two batches and then one by one.
Result<double> LargestDifference(const Model& model, const NotedTokens& tokens) {
  const LayerExperts eligible = EligibleExperts(model.weights(), std::nullopt, true);
  const size_t batch = std::max<size_t>(8, tokens.size() / 3);
  const auto context = static_cast<uint32_t>(std::max<size_t>(64, tokens.size()));
  SHARD_TRY(
      const auto session,
      Session::Open(model, eligible, {.context = context, .batch = static_cast<uint32_t>(batch)}));
  std::vector<uint32_t> ids;
  for (const NotedToken& token : tokens) ids.push_back(token.id);
  double largest = 0;
  for (size_t first = 0; first < ids.size();) {
    const size_t count = first < 2 * batch ? batch : 1;
    SHARD_TRY(const std::vector<float> logits,
              session->Feed(std::span(ids).subspan(first, count), LogitsOf::kAll));
    for (size_t row = 0; row < count; ++row) {
      const NotedToken& token = tokens[first + row];
      const double found = LogProbability(
          std::span(logits).subspan(row * model.vocabulary(), model.vocabulary()), token.likeliest);
      largest = std::max(largest, std::abs(found - token.log_probability));
    }
    first += count;
  }
  return largest;
}

class GoldenFamilies : public testing::TestWithParam<GoldenFamily> {
 protected:
  void SetUp() override {
    folder_ = FolderOf(GetParam().name);
    if (folder_.empty())
      GTEST_SKIP() << "no golden checkpoint " << GetParam().name << " on this machine";
  }
  Result<std::unique_ptr<Model>> Load(Executor& executor) const {
    SHARD_TRY(auto weights, LoadWeights(folder_.string(), {}));
    return Model::Load(std::move(weights), executor);
  }
  void Run(Executor& executor, const NotedTokens& tokens) const;
  void RunOnAll(const NotedTokens& tokens) const;

  fs::path folder_;
};

void GoldenFamilies::Run(Executor& executor, const NotedTokens& tokens) const {
  const auto model = Load(executor);
  ASSERT_TRUE(model) << model.error().message;
  const auto difference = LargestDifference(**model, tokens);
  ASSERT_TRUE(difference) << difference.error().message;
  EXPECT_LE(*difference, kTolerance) << executor.description();
}

void GoldenFamilies::RunOnAll(const NotedTokens& tokens) const {
  for (const ExecutorKind& kind : AllExecutorKinds()) {
    const auto executor = OpenExecutor(kind.name, {});
    if (!executor) continue;  // this build or machine lacks it
    SCOPED_TRACE(kind.name);
    Run(**executor, tokens);
  }
}

TEST_P(GoldenFamilies, HaveTheLogProbabilitiesOfLlamaCpp) {
  if (*GetParam().refusal != '\0') GTEST_SKIP() << "its row says that it does not run";
  NotedTokens tokens = ReadStock(GetParam().name);
  ASSERT_EQ(tokens.size(), 24u);
  tokens.resize(GetParam().tokens);
  RunOnAll(tokens);
}

TEST_P(GoldenFamilies, HaveThemInALongerText) {
  if (!GetParam().has_long_text) GTEST_SKIP() << "its row says that it has none";
  RunOnAll(ReadStock(GetParam().name, "stock-f32-long.json"));
}

TEST_P(GoldenFamilies, HaveStockLogProbabilitiesNearThoseOfTheNote) {
  if (*GetParam().refusal != '\0') GTEST_SKIP() << "its row says that it does not run";
  const NotedTokens noted = ReadNote(folder_ / "NOTE.md"), stock = ReadStock(GetParam().name);
  ASSERT_EQ(noted.size(), 24u);
  ASSERT_EQ(stock.size(), noted.size());
  std::vector<double> differences;
  for (size_t i = 0; i < noted.size(); ++i) {
    EXPECT_EQ(stock[i].id, noted[i].id);
    differences.push_back(std::abs(stock[i].log_probability - noted[i].log_probability));
  }
  std::sort(differences.begin(), differences.end());
  EXPECT_LE(differences[differences.size() / 2], kRounding);
}

TEST_P(GoldenFamilies, AreRefusedWithTheReasonIfTheyDoNotRun) {
  if (*GetParam().refusal == '\0') GTEST_SKIP() << "its row says that it runs";
  const auto executor = OpenExecutor("cpu", {});
  ASSERT_TRUE(executor) << executor.error().message;
  const auto model = Load(**executor);
  ASSERT_FALSE(model) << "it runs, so its row should say so";
  EXPECT_NE(model.error().message.find(GetParam().refusal), std::string::npos)
      << model.error().message;
}

INSTANTIATE_TEST_SUITE_P(, GoldenFamilies, testing::ValuesIn(kGoldenFamilies), [](const auto& one) {
  std::string name = one.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
});

// No folder without a row.
TEST(GoldenFamilyRows, NameEveryFolder) {
  const fs::path root = FolderOf("exaone-moe").parent_path();
  if (root.empty()) GTEST_SKIP() << "no golden/convert-2026 on this machine";
  std::set<std::string> rows, folders;
  for (const GoldenFamily& family : kGoldenFamilies) rows.insert(family.name);
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_directory()) folders.insert(entry.path().filename().string());
  }
  EXPECT_EQ(rows, folders);
}

}  // namespace
}  // namespace moepack::runtime
