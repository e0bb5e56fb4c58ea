#include <gmock/gmock.h>

#include "libshard/base/files/memory_tree.h"
#include "libshard/base/files/zstd.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

// Layer 0 of a model of four experts, one per token: a b a c b a.
constexpr const char* kTrace =
    "# route_trace v1\n# model=m arch=a n_layer=1 n_expert=4 n_expert_used=1\n"
    "# layer=0 expert_bytes=1000 dense_bytes=0\n"
    "turn,phase,step,layer,slot,expert,weight\n"
    "0,0,0,0,0,0,1\n0,0,1,0,0,1,1\n0,1,2,0,0,0,1\n0,1,3,0,0,2,1\n0,1,4,0,0,1,1\n0,1,5,0,0,0,1\n";

class ReplayCommand : public ::testing::Test {
 protected:
  ReplayCommand() { WriteAll(workspace_ / "t.csv", kTrace); }
  void ExpectRefused(const std::string& arguments, const std::string& message, int status = 2) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(run.out, "");
  }
  Workspace workspace_;
};

TEST_F(ReplayCommand, CountsATokenThatFillsTheCachesInTheSingular) {
  EXPECT_THAT(workspace_.Moepack("replay t.csv --slots 2 --policy lru --warm-up 20").out,
              HasSubstr("; the first fills the caches\n"));
  EXPECT_THAT(workspace_.Moepack("replay t.csv --slots 2 --policy lru --warm-up 50").out,
              HasSubstr("; the first 3 fill the caches\n"));
}

TEST_F(ReplayCommand, PrintsHitsBySizeAndPolicy) {
  const ToolRun run = workspace_.Moepack("replay t.csv --slots 2,4 --policy lru,lfu,oracle");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out,
            "route_trace v1: 1 layer with 4 experts, 1 per token; 6 tokens in 1 turn\n"
            "counted: 2 of prefill, 4 of decode\n"
            "\n"
            "slots    cache  policy    hits  prefill  decode  read/token\n"
            "    2  2.00 kB  lru     16.7 %    0.0 %  25.0 %       833 B\n"
            "    2  2.00 kB  lfu     33.3 %    0.0 %  50.0 %       667 B\n"
            "    2  2.00 kB  oracle  50.0 %    0.0 %  75.0 %       500 B\n"
            "    4  4.00 kB  lru     50.0 %    0.0 %  75.0 %       500 B\n"
            "    4  4.00 kB  lfu     50.0 %    0.0 %  75.0 %       500 B\n"
            "    4  4.00 kB  oracle  50.0 %    0.0 %  75.0 %       500 B\n");
}

TEST_F(ReplayCommand, PrintsOneJsonDocument) {
  const Json json = workspace_.Json("replay t.csv --slots 2 --warm-up 34 --json");
  EXPECT_EQ(json["tokens"], 6);
  EXPECT_EQ(json["counted"]["decode"], 4);
  EXPECT_EQ(json["static_from"], "the first 34 % of the trace");
  ASSERT_EQ(json["rows"].size(), 4u);
  EXPECT_EQ(json["rows"][2]["policy"], "static");
  EXPECT_EQ(json["rows"][2]["all"]["hits"], 3);
  EXPECT_EQ(json["rows"][2]["all"]["read_bytes"], 1000);
  EXPECT_EQ(json["rows"][2]["prefill"]["hit_rate"], nullptr);
}

TEST_F(ReplayCommand, BytesDetermineTheSlots) {
  const Json json = workspace_.Json("replay t.csv --bytes 2500 --policy lru --json");
  EXPECT_EQ(json["rows"][0]["slots"], 2);
  EXPECT_EQ(json["rows"][0]["cache_bytes"], 2000);
  ExpectRefused("replay t.csv --bytes 999",
                "--bytes must be at least 1,000 (one expert of each layer), not 999");
  WriteAll(workspace_ / "pairs.csv", "0,1\n0,2\n");
  ExpectRefused("replay pairs.csv --bytes 1MB --top-k 1", "--bytes needs the size of an expert");
}

TEST_F(ReplayCommand, ReplaysATraceAgainstItsCheckpointAndItsDistribution) {
  ASSERT_EQ(workspace_
                .Moepack("profile fixtures/tiny-moe --text README.md --context 64 --trace run.csv "
                         "-o stats.json")
                .status,
            0);
  const Json plain = workspace_.Json(
      "replay run.csv --model fixtures/tiny-moe --slots 2,8,16 --policy lru,oracle --json");
  EXPECT_EQ(plain["format"], "route_trace v1");
  EXPECT_EQ(plain["layers"].size(), 3u);
  const Json& all = plain["rows"][4]["all"];  // 16 slots: only first uses miss
  const uint64_t misses = all["lookups"].get<uint64_t>() - all["hits"].get<uint64_t>();
  EXPECT_LE(misses, 48u);
  EXPECT_EQ(all["read_bytes"], misses * 393216);
  EXPECT_GE(all["read_block_bytes"].get<uint64_t>(), misses * 393216);
  EXPECT_GE(plain["rows"][1]["all"]["hits"], plain["rows"][0]["all"]["hits"]);

  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 --recipe Q8_0 -o out").status,
            0);
  const Json split = workspace_.Json("replay run.csv --model out --slots 16 --policy lru --json");
  EXPECT_EQ(split["rows"][0]["all"]["hits"], all["hits"]);
  EXPECT_EQ(split["rows"][0]["all"]["read_bytes"], misses * 3 * 256 * 256 / 32 * 34);

  const Json fixed =
      workspace_.Json("replay run.csv --statistics stats.json --policy static --slots 8 --json");
  EXPECT_EQ(fixed["static_from"], "stats.json");
  const Json expected = workspace_.Json("replay stats.json --slots 8 --json");
  EXPECT_EQ(expected["basis"], "count");
  EXPECT_NEAR(expected["rows"][0]["expected_rate"].get<double>(),
              fixed["rows"][0]["all"]["hit_rate"].get<double>(), 0.05);
}

TEST_F(ReplayCommand, StatisticsListWhatTheyCannotShow) {
  ASSERT_EQ(
      workspace_.Moepack("profile fixtures/tiny-moe --text README.md -o stats.json.zst").status, 0);
  const ToolRun run = workspace_.Moepack("replay stats.json.zst --slots 4");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("moepack-statistics: 3 layers with 16 experts, 2 per token; "
                                  "1 session\nStatistics have no order."));
  for (const char* option : {"--warm-up 5", "--top-k 2", "--prefill-batch 2"}) {
    ExpectRefused(std::string("replay stats.json.zst ") + option,
                  "has no effect: stats.json.zst is not a trace");
  }
  ExpectRefused("replay stats.json.zst --policy lru",
                "--policy needs a trace, and stats.json.zst has statistics");
}

TEST_F(ReplayCommand, AnotherModelIsRefused) {
  ExpectRefused("replay t.csv --model fixtures/tiny-moe",
                "t.csv: layer 0: experts: expected 16, found 4", 6);
}

TEST_F(ReplayCommand, ImpossibleSizesAreRefused) {
  ExpectRefused("replay t.csv --slots 5",
                "error: --slots: 5 is more than the 4 experts of a layer\n");
  ExpectRefused("replay fixtures/statistics/profile.json --slots 17",
                "error: --slots: 17 is more than the 16 experts of a layer\n");
  ExpectRefused("replay t.csv --slots 4,4,2", "error: --slots: 4 is given twice\n");
  ExpectRefused("replay t.csv --bytes 2kB,2kB", "error: --bytes: 2000 is given twice\n");
  ExpectRefused("replay t.csv --policy lru,lru", "error: --policy: \"lru\" is given twice\n");
}

TEST_F(ReplayCommand, ExpertsPerTokenAreOnlyForTracesThatDoNotSayThem) {
  WriteAll(workspace_ / "rows.csv", "layer,expert\n0,1\n0,2\n1,3\n1,4\n0,1\n0,2\n1,3\n1,4\n");
  const std::string replay = "replay rows.csv --policy lru --slots 2 --json";
  EXPECT_EQ(workspace_.Json(replay + " --top-k 1")["layers"][0]["top_k"], 1);
  EXPECT_EQ(workspace_.Json(replay + " --top-k 2 --model fixtures/tiny-moe")["layers"][0]["top_k"],
            2);
  ExpectRefused(replay + " --top-k 1 --model fixtures/tiny-moe",
                "error: --top-k: expected 2 as in layer 0 of fixtures/tiny-moe, found 1\n");
  WriteAll(workspace_ / "wide.csv", "0,0,1,2\n1,0,1,3\n");
  for (const std::string trace : {"t.csv", "wide.csv"}) {
    ExpectRefused(
        "replay " + trace + " --top-k 1 --policy lru",
        "error: --top-k has no effect: " + trace + " says how many experts each token chose\n");
  }
}

TEST_F(ReplayCommand, StatisticsOfOtherToolsAreRefused) {
  ExpectRefused("replay t.csv --policy static --statistics fixtures/statistics/imatrix.gguf",
                "error: fixtures/statistics/imatrix.gguf: expected statistics of moepack profile, "
                "found imatrix\n",
                4);
}

TEST_F(ReplayCommand, OptionsThatContradictEachOtherAreRefused) {
  WriteAll(workspace_ / "s.json", "{}");
  ExpectRefused("replay t.csv --policy lru --statistics s.json",
                "--statistics has no effect: only --policy static asks for it");
  ExpectRefused("replay t.csv --warm-up 0",
                "--policy static has no steps from which to choose its experts");
  ExpectRefused("replay t.csv --slots 0", "expected a number from 1 to 4096, found \"0\"");
  ExpectRefused("replay t.csv --policy mru",
                "expected one of lru, lfu, static, oracle, found \"mru\"");
}

TEST_F(ReplayCommand, ACompressedTraceIsReplayedAsThePlainOne) {
  const std::string profile = "profile fixtures/tiny-moe --text README.md --generate 8 --trace ";
  ASSERT_EQ(workspace_.Moepack(profile + "run.csv").status, 0);
  ASSERT_EQ(workspace_.Moepack(profile + "run.csv.zst").status, 0);
  const std::string plain = ReadFile(workspace_ / "run.csv");
  const std::string frames = ReadFile(workspace_ / "run.csv.zst");
  EXPECT_TRUE(IsZstd(frames));
  EXPECT_LT(2 * frames.size(), plain.size());
  EXPECT_TRUE(TextHead(MemorySource("run.csv.zst", frames), 2 * plain.size()).value() == plain);
  for (const char* options : {"", " --model fixtures/tiny-moe --json"}) {
    const ToolRun one = workspace_.Moepack(std::string("replay run.csv --slots 2,4") + options);
    const ToolRun other =
        workspace_.Moepack(std::string("replay run.csv.zst --slots 2,4") + options);
    EXPECT_EQ(one.status, 0) << one.err;
    EXPECT_EQ(other.status, 0) << other.err;
    EXPECT_EQ(one.out, other.out);
  }
  const std::string convert = "statistics convert run.csv";
  ASSERT_EQ(workspace_.Moepack(convert + " --to sglang -o one.json").status, 0);
  ASSERT_EQ(workspace_.Moepack(convert + ".zst --to sglang -o other.json").status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "one.json"), ReadFile(workspace_ / "other.json"));
  WriteAll(workspace_ / "cut.zst", frames.substr(0, frames.size() - 1));
  ExpectRefused("replay cut.zst", "cut.zst: zstd frame at byte ", 3);
}

TEST_F(ReplayCommand, ATraceReplacesAFileOnlyOnRequest) {
  const std::string command = "profile fixtures/tiny-moe --tokens 1,2,3 --trace t.csv";
  ExpectRefused(command, "t.csv already exists");
  ExpectRefused("profile fixtures/tiny-moe --tokens 1,2 --trace a.json -o a.json",
                "a.json is --output and --trace");
  ExpectRefused("profile fixtures/tiny-moe --text t.csv --trace t.csv --force",
                "t.csv is also an input");
  EXPECT_EQ(workspace_.Moepack(command + " --force").status, 0);
  EXPECT_THAT(ReadFile(workspace_ / "t.csv"), HasSubstr("n_layer=3 n_expert=16 n_expert_used=2"));
}

}  // namespace
}  // namespace moepack::cli
