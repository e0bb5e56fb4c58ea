// The importance matrix of profile: its file, and how plan and quantize use it.
#include <gmock/gmock.h>

#include <algorithm>

#include "libshard/recipe/imatrix.h"
#include "runtime-shim/model/weights.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class ProfileImatrix : public ::testing::Test {
 protected:
  ToolRun Profile(const std::string& words) {
    return workspace_.Moepack("profile fixtures/tiny-moe " + words);
  }
  Imatrix Read(const std::string& name) {
    const auto read = ReadImatrix((workspace_ / name).string());
    EXPECT_TRUE(read) << (read ? "" : read.error().message);
    return read ? *read : Imatrix{};
  }
  Workspace workspace_;
};

TEST_F(ProfileImatrix, HasAnEntryForEveryMatrixOfALayerAndNamesItsTexts) {
  WriteAll(workspace_ / "texts/ids", "1 2 3 4 5 6 7 8 9 10");
  const ToolRun run = Profile("--tokens texts/ids --context 4 --imatrix im.gguf");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("wrote im.gguf\n"));
  const Imatrix imatrix = Read("im.gguf");
  EXPECT_EQ(imatrix.entries.size(), 3u * 8);  // q, k, v, output, router, gate, up, down
  EXPECT_THAT(imatrix.datasets, ElementsAre("ids"));
  EXPECT_EQ(imatrix.chunks, 3u);
  EXPECT_EQ(imatrix.chunk_tokens, 4u);
  EXPECT_THAT(imatrix.entries.at("blk.2.attn_q.weight").counts, ElementsAre(10));
  float chosen = 0;
  for (const float count : imatrix.entries.at("blk.2.ffn_down_exps.weight").counts) chosen += count;
  EXPECT_EQ(chosen, 20);
}

// Removes the norms of all layers, and returns them.
std::vector<double> TakeNorms(Json& statistics) {
  std::vector<double> norms;
  for (Json& layer : statistics["sessions"][0]["prefill"]["layers"]) {
    const auto own = layer["weighted_norm"].get<std::vector<double>>();
    norms.insert(norms.end(), own.begin(), own.end());
    layer.erase("weighted_norm");
  }
  return norms;
}

TEST_F(ProfileImatrix, IsWrittenWithTheStatisticsOfTheSamePass) {
  WriteAll(workspace_ / "ids", "1 2 3 4 5 6 7 8 9 10");
  ASSERT_EQ(Profile("--tokens ids -o alone.json").status, 0);
  ASSERT_EQ(Profile("--tokens ids -o s.json --imatrix im.gguf --threads 3").status, 0);
  // Output norms are sums that the executor rounds differently when its products are observed.
  Json statistics = Json::parse(ReadFile(workspace_ / "s.json"));
  Json alone = Json::parse(ReadFile(workspace_ / "alone.json"));
  const std::vector<double> norms = TakeNorms(statistics), expected = TakeNorms(alone);
  EXPECT_EQ(statistics, alone);
  ASSERT_EQ(norms.size(), 3u * 16);
  ASSERT_EQ(norms.size(), expected.size());
  for (size_t i = 0; i < norms.size(); ++i) EXPECT_NEAR(norms[i], expected[i], 1e-6 * expected[i]);
  EXPECT_EQ(statistics["model"]["router_digest"], Read("im.gguf").router_digest);
  ASSERT_EQ(Profile("--tokens ids --imatrix again.gguf --threads 1").status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "again.gguf"), ReadFile(workspace_ / "im.gguf"));
}

TEST_F(ProfileImatrix, ExcludesGeneratedTokens) {
  WriteAll(workspace_ / "ids", "1 2 3 4 5 6 7 8 9 10");
  ASSERT_EQ(Profile("--tokens ids --imatrix a.gguf").status, 0);
  ASSERT_EQ(Profile("--tokens ids --imatrix b.gguf --generate 5").status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "a.gguf"), ReadFile(workspace_ / "b.gguf"));
}

TEST_F(ProfileImatrix, IsTheSameForADistributionAndItsSource) {
  WriteAll(workspace_ / "ids", "1 2 3 4 5 6 7 8 9 10");
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o out").status, 0);
  ASSERT_EQ(Profile("--tokens ids --imatrix a.gguf").status, 0);
  ASSERT_EQ(workspace_.Moepack("profile out --tokens ids --imatrix b.gguf").status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "a.gguf"), ReadFile(workspace_ / "b.gguf"));
}

TEST_F(ProfileImatrix, IsNamedInJsonAndReplacesNothingUnlessForced) {
  WriteAll(workspace_ / "ids", "1 2 3");
  const Json report =
      workspace_.Json("profile fixtures/tiny-moe --tokens ids --imatrix im.gguf --json");
  EXPECT_EQ(report["imatrix"], "im.gguf");
  EXPECT_TRUE(report["output"].is_null());
  const ToolRun again = Profile("--tokens ids --imatrix im.gguf");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("im.gguf already exists"));
  EXPECT_EQ(Profile("--tokens ids --imatrix im.gguf --force").status, 0);
  const ToolRun twice = Profile("--tokens ids --imatrix s.json -o s.json");
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.err, HasSubstr("s.json is --output and --imatrix"));
  const ToolRun text = Profile("--tokens ids --imatrix ids --force");
  EXPECT_EQ(text.status, 2);
  EXPECT_THAT(text.err, HasSubstr("ids is also an input"));
}

std::vector<float> ValuesOf(const runtime::HostTensor& tensor) {
  std::vector<float> values;
  for (const runtime::ByteView view : tensor.bytes.views()) {
    std::vector<float> some(view.size() / tensor.format->block_bytes * tensor.format->block_values);
    tensor.format->decode(view, some);
    values.insert(values.end(), some.begin(), some.end());
  }
  return values;
}

// The sum over all matrices of m(c) (w(r, c) - w'(r, c))^2, relative to that of m(c) w(r, c)^2.
double WeightedError(const std::string& exact, const std::string& quantized,
                     const Imatrix& imatrix) {
  const auto from = runtime::LoadWeights(exact, {}), to = runtime::LoadWeights(quantized, {});
  EXPECT_TRUE(from && to);
  if (!from || !to) return -1;
  const auto add = [&](const std::vector<runtime::HostTensor>& one,
                       const std::vector<runtime::HostTensor>& other) {
    double sum = 0;
    for (const runtime::HostTensor& tensor : one) {
      const auto entry = imatrix.entries.find(tensor.name);
      const auto same = std::find_if(other.begin(), other.end(),
                                     [&](const auto& each) { return each.name == tensor.name; });
      if (entry == imatrix.entries.end() || same == other.end()) continue;
      const ImatrixEntry& moments = entry->second;
      const size_t width = tensor.shape.back(), experts = moments.counts.size();
      const std::vector<float> w = ValuesOf(tensor), v = ValuesOf(*same);
      double error = 0, energy = 0;
      for (size_t i = 0; i < w.size(); ++i) {
        const size_t expert = i / (w.size() / experts);
        const double moment = moments.sums[expert * width + i % width];
        error += moment * (w[i] - v[i]) * (w[i] - v[i]);
        energy += moment * w[i] * w[i];
      }
      sum += error / energy;
    }
    return sum;
  };
  return add((*from)->trunk, (*to)->trunk) + add((*from)->sets[0].tensors, (*to)->sets[0].tensors);
}

TEST_F(ProfileImatrix, LowersTheWeightedErrorOfQuantizing) {
  ASSERT_EQ(Profile("--text fixtures/texts/manual.md --imatrix im.gguf").status, 0);
  const std::string quantize = "quantize fixtures/tiny-moe --recipe Q3_K_S -o ";
  ASSERT_EQ(workspace_.Moepack(quantize + "plain.gguf").status, 0);
  ASSERT_EQ(workspace_.Moepack(quantize + "weighed.gguf --imatrix im.gguf").status, 0);
  const auto error = [&](const std::string& file) {
    return WeightedError((workspace_ / "fixtures/tiny-moe").string(), (workspace_ / file).string(),
                         Read("im.gguf"));
  };
  const double weighed = error("weighed.gguf");
  EXPECT_GT(weighed, 0);
  EXPECT_LT(weighed, error("plain.gguf"));
}

// The figures of docs/planning.md, with fewer texts.
TEST_F(ProfileImatrix, ChoosesTypesWithLessDamageAtTheSameSize) {
  ASSERT_EQ(Profile("--text fixtures/texts/calibration.jsonl --imatrix im.gguf").status, 0);
  const auto divergence = [&](const std::string& name, const std::string& words) {
    EXPECT_EQ(workspace_
                  .Moepack("plan fixtures/tiny-moe --groups 1 --budget 4200kB -o " + name +
                           ".json " + words)
                  .status,
              0);
    EXPECT_EQ(workspace_
                  .Moepack("build fixtures/tiny-moe --plan " + name +
                           ".json --imatrix im.gguf -o " + name)
                  .status,
              0);
    const Json report =
        workspace_.Json("eval " + name +
                        " --against fixtures/tiny-moe --text fixtures/texts/manual.md "
                        "--generate 0 --json");
    return report["quantization"]["kld"]["mean"].get<double>();
  };
  EXPECT_LT(divergence("weighed", "--imatrix im.gguf"), divergence("plain", ""));
}

TEST_F(ProfileImatrix, CountsExpertsForThePlanner) {
  ASSERT_EQ(Profile("--text fixtures/texts/manual.md -o s.json --imatrix im.gguf").status, 0);
  const Json shown = workspace_.Json("statistics show im.gguf --json");
  EXPECT_EQ(shown["router_digest"],
            Json::parse(ReadFile(workspace_ / "s.json"))["model"]["router_digest"]);
}

// A model of the same shape with other routers.
TEST_F(ProfileImatrix, OfAnotherModelIsRefused) {
  WriteAll(workspace_ / "ids", "1 2 3 4 5 6 7 8 9 10");
  ASSERT_EQ(Profile("--tokens ids --imatrix im.gguf").status, 0);
  Imatrix other = Read("im.gguf");
  other.router_digest = std::string(32, '0');
  ASSERT_TRUE(WriteImatrix((workspace_ / "other.gguf").string(), other));
  const std::string message = "other.gguf: router digest: expected " +
                              Read("im.gguf").router_digest + ", found " + other.router_digest;
  for (const std::string words :
       {"quantize fixtures/tiny-moe --recipe Q4_K_M -o q.gguf --imatrix other.gguf",
        "build fixtures/tiny-moe --groups 3 --quantize Q4_K_M -o out --imatrix other.gguf",
        "plan fixtures/tiny-moe --groups 3 --budget 5MB --imatrix other.gguf",
        "plan fixtures/tiny-moe --groups 3 --statistics other.gguf --partition ranked"}) {
    const ToolRun run = workspace_.Moepack(words);
    EXPECT_EQ(run.status, 6) << words;
    EXPECT_THAT(run.err, HasSubstr(message)) << words;
  }
}

TEST_F(ProfileImatrix, AnEntryOfAnotherShapeIsRefusedByName) {
  WriteAll(workspace_ / "ids", "1 2 3 4 5 6 7 8 9 10");
  ASSERT_EQ(Profile("--tokens ids --imatrix im.gguf").status, 0);
  Imatrix other = Read("im.gguf");
  ImatrixEntry& entry = other.entries["blk.1.ffn_up_exps.weight"];
  entry.counts.pop_back();
  entry.sums.resize(entry.sums.size() / 16 * 15);
  ASSERT_TRUE(WriteImatrix((workspace_ / "other.gguf").string(), other));
  const ToolRun run =
      workspace_.Moepack("plan fixtures/tiny-moe --groups 3 --budget 5MB --imatrix other.gguf");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.err, HasSubstr("other.gguf: entry \"blk.1.ffn_up_exps.weight\": expected 4096 "
                                 "sums with 1 or 16 counts, found 3840 with 15"));
}

}  // namespace
}  // namespace moepack::cli
