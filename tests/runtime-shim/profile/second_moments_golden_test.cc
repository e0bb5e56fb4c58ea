// The importance matrix that llama-imatrix v0.5.0 made of golden/convert/qwen3-moe, from its
// text.txt in chunks of 256 tokens, beside ours.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "libshard/base/files/file.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/profile/second_moments.h"
#include "runtime-shim/session/session.h"
#include "runtime-shim/tokenizer/tokenizer.h"

namespace moepack::runtime {
namespace {

constexpr size_t kChunk = 256, kChunks = 8;

std::string GoldenFolder() {
  const fs::path source = MOEPACK_SOURCE_DIR;
  const char* shared = std::getenv("MOEPACK_SHARED");
  const fs::path beside = shared != nullptr ? fs::path(shared) : source / "../shared";
  for (const fs::path& root : {source / "fixtures/golden/convert", beside / "golden/convert"}) {
    const fs::path folder = root / "qwen3-moe";
    if (fs::exists(folder / "config.json")) return folder.string();
  }
  return "";
}

using Entries = std::map<std::string, ImatrixEntry, std::less<>>;

Result<Entries> MeasuredOn(const std::string& folder) {
  SHARD_TRY(const auto weights, LoadWeights(folder, {}));
  SHARD_TRY(const auto tokenizer, OpenTokenizer(folder, weights->metadata));
  SHARD_TRY(const std::string text, ReadTextFile(folder + "/text.txt", 1u << 20));
  SHARD_TRY(const std::vector<uint32_t> tokens, tokenizer->Encode(text, Tokenizer::Options()));
  SecondMoments moments;
  ExecutorOptions rounded;
  rounded.round_activations = true;  // the file was made from BF16 weights
  SHARD_TRY(std::shared_ptr<Executor> cpu, OpenExecutor("cpu", rounded));
  ObservedExecutor executor(std::move(cpu), moments);
  SHARD_TRY(const auto model, Model::Load(weights, executor));
  moments.SetWeights(*weights);
  SessionOptions options;
  options.context = kChunk;
  SHARD_TRY(const auto session,
            Session::Open(*model, EligibleExperts(*weights, std::nullopt, true), options));
  for (size_t first = 0; first < kChunks * kChunk; first += kChunk) {
    session->Rewind(0);
    SHARD_CHECK(session->Feed(std::span(tokens).subspan(first, kChunk), LogitsOf::kLast));
  }
  return moments.Entries();
}

double MeanOf(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The largest difference of a sum, relative to the mean of its row.
double DifferenceOf(const ImatrixEntry& ours, const ImatrixEntry& theirs) {
  const size_t width = theirs.sums.size() / theirs.counts.size();
  double largest = 0;
  for (size_t i = 0; i < theirs.sums.size(); ++i) {
    const double mean = MeanOf(std::span(theirs.sums).subspan(i / width * width, width));
    largest = std::max(largest, std::abs(double{ours.sums[i]} - theirs.sums[i]) / mean);
  }
  return largest;
}

// llama.cpp rounds activations to BF16 and keys and values to F16 on the way, in its own order.
// After the first layer, that changes near ties among experts.
void ExpectNearlySame(const std::string& name, const ImatrixEntry& ours,
                      const ImatrixEntry& theirs) {
  SCOPED_TRACE(name);
  ASSERT_EQ(ours.sums.size(), theirs.sums.size());
  ASSERT_EQ(ours.counts.size(), theirs.counts.size());
  const bool first = name.starts_with("blk.0.");
  constexpr float kMoved = 4;  // of 2,048 tokens
  for (size_t i = 0; i < theirs.counts.size(); ++i)
    EXPECT_NEAR(ours.counts[i], theirs.counts[i], first ? 0 : kMoved);
  if (first || theirs.counts.size() == 1) {
    EXPECT_LT(DifferenceOf(ours, theirs), 0.01);
  }
}

TEST(SecondMomentsGolden, MatchLlamaImatrix) {
  const std::string folder = GoldenFolder();
  if (folder.empty()) GTEST_SKIP() << "0 entries compared: there is no folder golden/convert";
  const auto golden = ReadImatrix(folder + "/gguf/imatrix.gguf");
  ASSERT_TRUE(golden) << golden.error().message;
  ASSERT_EQ(golden->chunks, kChunks);
  ASSERT_EQ(golden->chunk_tokens, kChunk);
  const auto ours = MeasuredOn(folder);
  ASSERT_TRUE(ours) << ours.error().message;
  EXPECT_EQ(ours->size(), golden->entries.size());
  // Nothing is rounded before the first matrix.
  constexpr const char* kFirst = "blk.0.attn_q.weight";
  EXPECT_LT(DifferenceOf(ours->at(kFirst), golden->entries.at(kFirst)), 1e-5);
  for (const auto& [name, theirs] : golden->entries) {
    const auto found = ours->find(name);
    ASSERT_NE(found, ours->end()) << name;
    ExpectNearlySame(name, found->second, theirs);
  }
}

}  // namespace
}  // namespace moepack::runtime
