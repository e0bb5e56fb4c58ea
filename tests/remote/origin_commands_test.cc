// The statements of the built moepack about remote sources: before it reads them, and in its
// output.
#include "tests/remote/support/origin_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

using cli::ReadFile;
using cli::ToolRun;
using cli::Workspace;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(OriginCommands, RecordsTheCommitAndDigestsOfTheHub) {
  const ToolRun run = workspace_.Moepack("build hf://owner/model --groups 3 -o out");
  ASSERT_EQ(run.status, 0) << run.err;
  for (const nlohmann::json& source : SourcesOf("out")) {
    EXPECT_EQ(source["url"],
              Cat("hf://owner/model@", hub_.commit, "/", std::string(source["file"])));
    EXPECT_EQ(source["commit"], hub_.commit);
    EXPECT_EQ(std::string(source["published_sha256"]).size(), 64u);
    EXPECT_EQ(source["verified"], "transport");
    EXPECT_FALSE(source.contains("validator"));
  }
  const ToolRun verified = workspace_.Moepack("verify out");
  EXPECT_EQ(verified.status, 0);
  EXPECT_THAT(verified.out,
              HasSubstr("note: source-origin: 3 of 3 source files came over a network, "
                        "\"hf://owner/model@"));
}

TEST_F(OriginCommands, RecordsTheValidatorsOfFilesOfAWebServer) {
  const std::string secret = "http://me:s3cret@" + address().substr(7);
  ASSERT_EQ(workspace_.Moepack("build '" + secret + "' --groups 3 -o out").status, 0);
  const nlohmann::json source = SourcesOf("out")[0];
  EXPECT_EQ(source["url"], address() + "model-00001-of-00003.safetensors");
  EXPECT_THAT(std::string(source["validator"]), HasSubstr("ETag \""));
  EXPECT_EQ(source["verified"], "transport");
  EXPECT_FALSE(source.contains("published_sha256"));
}

TEST_F(OriginCommands, VerifySourceStreamsWholeFilesAndRefusesChangedOnes) {
  const std::string build = "shard-experts hf://owner/model --groups 3 --verify-source -o ";
  const ToolRun run = workspace_.Moepack(build + "out");
  ASSERT_EQ(run.status, 0) << run.err;
  for (const nlohmann::json& source : SourcesOf("out")) EXPECT_EQ(source["verified"], "whole");
  // The last byte of a file differs from the published one.
  hub_.cdn().SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    const auto asked = request.Range();
    for (const auto& [name, value] : answer.fields) {
      if (asked && name == "Content-Range" &&
          value.ends_with(Cat("-", asked->second, "/", asked->second + 1)))
        answer.body.back() = static_cast<char>(answer.body.back() ^ 1);
    }
  });
  const ToolRun damaged = workspace_.Moepack(build + "damaged");
  EXPECT_EQ(damaged.status, 3) << damaged.err;
  EXPECT_THAT(damaged.err, AllOf(HasSubstr(".safetensors: SHA-256: expected "),
                                 HasSubstr(" as published, found "), HasSubstr("hint: ")));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "damaged"));
  const ToolRun web =
      workspace_.Moepack("shard-experts " + address() + " --groups 3 --verify-source -o web");
  EXPECT_EQ(web.status, 4);
  EXPECT_THAT(web.err, HasSubstr("expected a published SHA-256, found none"));
}

TEST_F(OriginCommands, ADryRunSaysWhatItWouldFetch) {
  const std::string shard = "shard-experts " + address() + " --groups 3 --only group:1 -o out";
  const ToolRun text = workspace_.Moepack(shard + " --dry-run");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("would fetch "));
  EXPECT_THAT(text.out, HasSubstr(" of weights in "));
  EXPECT_THAT(text.out, HasSubstr("the rate at which one connection brought "));
  const nlohmann::json fetch = workspace_.Json(shard + " --dry-run --json")["fetch"];
  EXPECT_GT(fetch["rate"], 0.0);
  EXPECT_GT(fetch["seconds"], 0.0);
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "out"));

  const auto requests = [&] {
    uint64_t bytes = 0, count = 0;
    for (const FakeRequest& request : server_.requests()) {
      const auto range = request.Range();
      // Neither headers nor the pages that the model version depends on.
      const bool weights = range && request.path.ends_with(".safetensors") && range->first > 0 &&
                           range->second - range->first >= 8192;
      if (!weights) continue;
      bytes += range->second - range->first + 1;
      ++count;
    }
    return std::pair(bytes, count);
  };
  server_.Forget();
  ASSERT_EQ(workspace_.Moepack(shard).status, 0);
  const auto [bytes, count] = requests();
  const auto expected = fetch["bytes"].get<uint64_t>();
  EXPECT_LE(bytes, expected);
  EXPECT_GE(bytes, expected - 3 * 131072)
      << "less is fetched only where the headers already had the bytes";
  EXPECT_LE(count, fetch["requests"].get<uint64_t>());
  const nlohmann::json hashed =
      workspace_.Json(shard + "2 --hash-source --dry-run --json")["fetch"];
  EXPECT_EQ(hashed["bytes"], expected + 21'151'376) << "every file is read once more";
  const nlohmann::json near = workspace_.Json(
      "shard-experts fixtures/tiny-moe --groups 3 --only group:1 -o near --dry-run --json");
  EXPECT_TRUE(near["fetch"].is_null());
}

TEST_F(OriginCommands, QuantizeAlsoSaysWhatItWouldFetch) {
  const ToolRun run =
      workspace_.Moepack("quantize " + address() + " --recipe Q4_K_M --dry-run -o a.gguf");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("would fetch "));
  EXPECT_THAT(workspace_.Moepack("quantize fixtures/tiny-moe --dry-run -o a.gguf").out,
              Not(HasSubstr("would fetch ")));
}

TEST_F(OriginCommands, BuildWritesOnlyTheNamedParts) {
  const ToolRun run = workspace_.Moepack("build " + address() +
                                         " --groups 3 --only group:2,trunk,assets -o out --prove");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(workspace_ / "out/groups/002"));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "out/groups/000"));
  EXPECT_THAT(run.out, HasSubstr("verification passed"));
  ASSERT_EQ(workspace_.Moepack("build " + address() + " --groups 3 --only group:0,group:1 -o rest")
                .status,
            0);
  ASSERT_EQ(workspace_.Moepack("build " + address() + " --groups 3 -o whole").status, 0);
  ASSERT_EQ(workspace_.Moepack("join rest out -o joined").status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "joined/distribution.json"),
            ReadFile(workspace_ / "whole/distribution.json"));
}

TEST_F(OriginCommands, VerifiesARemoteDistribution) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o out").status, 0);
  const std::string dist = server_.origin() + "/dist/";
  for (const char* folder : {"", "trunk/", "groups/000/", "groups/001/", "groups/002/", "assets/"})
    server_.AddDirectory(Cat("/dist/", folder), workspace_ / Cat("out/", folder));
  const ToolRun verified = workspace_.Moepack("verify -v " + dist + " --against fixtures/tiny-moe");
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("ok  file-sha256"));
  EXPECT_THAT(verified.out, Not(HasSubstr("no-stray-files"))) << "a server need not list files";
  EXPECT_THAT(verified.err, HasSubstr("note: fetched "));
  const ToolRun quantized = workspace_.Moepack("quantize " + dist + " --recipe Q8_0 -o a.gguf");
  EXPECT_EQ(quantized.status, 4);
  EXPECT_THAT(quantized.err, HasSubstr("found a distribution on another machine"));

  std::string group = ReadFile(workspace_ / "out/groups/001/experts.safetensors");
  group.back() = static_cast<char>(group.back() ^ 1);
  server_.Add("/dist/groups/001/experts.safetensors", group);
  const ToolRun damaged = workspace_.Moepack("verify " + dist);
  EXPECT_EQ(damaged.status, 6);
  EXPECT_THAT(damaged.out, HasSubstr("tensor-xxh3: groups/001/experts.safetensors"));

  server_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.path.ends_with("trunk.safetensors")) answer = Plain(404);
  });
  const ToolRun missing = workspace_.Moepack("verify " + dist);
  EXPECT_EQ(missing.status, 6);
  EXPECT_THAT(missing.out,
              HasSubstr("files-present: trunk/trunk.safetensors: expected a file of "));
  EXPECT_EQ(workspace_.Moepack("verify " + dist + " --cold").status, 2);
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(403); });
  EXPECT_EQ(workspace_.Moepack("verify " + dist).status, 5);
}

TEST_F(OriginCommands, AssemblesANodeFromARemoteDistribution) {
  for (const auto& [types, folders] :
       {std::pair{"--quantize Q4_K_M", "head/ trunk/ routers/ groups/001/ overlays/generalists-1/"},
        {"", "trunk/ groups/001/ overlays/generalists-1/ assets/"}}) {
    const std::string dist = Cat("dist-", *types == '\0' ? "plain" : "q4");
    const ToolRun built =
        workspace_.Moepack(Cat("build fixtures/tiny-moe --groups 3 --overlay-file "
                               "fixtures/tiny-overlay.json ",
                               types, " -o ", dist));
    ASSERT_EQ(built.status, 0) << built.err;
    server_.AddDirectory(Cat("/", dist, "/"), workspace_ / dist);
    for (const std::string& folder : Split(folders, ' '))
      server_.AddDirectory(Cat("/", dist, "/", folder), workspace_ / Cat(dist, "/", folder));
    const ToolRun far = workspace_.Moepack(
        Cat("assemble ", server_.origin(), "/", dist, "/ --group 1 -o far-", dist));
    ASSERT_EQ(far.status, 0) << far.err;
    EXPECT_THAT(far.err, HasSubstr("note: fetched "));
    const ToolRun dry = workspace_.Moepack(
        Cat("assemble ", server_.origin(), "/", dist, "/ --group 1 --dry-run -o dry-", dist));
    EXPECT_THAT(dry.err, HasSubstr("note: for the dry run, fetched "));
    ASSERT_EQ(workspace_.Moepack(Cat("assemble ", dist, " --group 1 -o near-", dist)).status, 0);
    EXPECT_TRUE(ContentOf(workspace_ / Cat("far-", dist)) ==
                ContentOf(workspace_ / Cat("near-", dist)))
        << dist;
    EXPECT_EQ(workspace_.Moepack(Cat("verify far-", dist)).status, 0);
  }
  const ToolRun linked = workspace_.Moepack(
      Cat("assemble ", server_.origin(), "/dist-q4/ --group 1 --link hardlink -o linked"));
  EXPECT_EQ(linked.status, 2) << linked.err;
  EXPECT_THAT(linked.err, HasSubstr("hint: leave out --link"));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "linked"));
}

TEST_F(OriginCommands, ADamagedRemoteDistributionGivesNoNode) {
  ASSERT_EQ(
      workspace_.Moepack("build fixtures/tiny-moe --groups 3 --quantize Q4_K_M -o dist").status, 0);
  for (const char* folder : {"", "head/", "trunk/", "routers/", "groups/001/"})
    server_.AddDirectory(Cat("/dist/", folder), workspace_ / Cat("dist/", folder));
  for (const char* file : {"trunk/trunk.gguf", "groups/001/experts.gguf"}) {
    const std::string bytes = ReadFile(workspace_ / Cat("dist/", file));
    std::string damaged = bytes;
    char& last = damaged[damaged.size() - 100];
    last = static_cast<char>(last ^ 1);
    server_.Add(Cat("/dist/", file), damaged);
    const ToolRun run =
        workspace_.Moepack(Cat("assemble ", server_.origin(), "/dist/ --group 1 -o node"));
    EXPECT_EQ(run.status, 6) << file << run.err;
    EXPECT_THAT(run.err, HasSubstr(file));
    EXPECT_FALSE(std::filesystem::exists(workspace_ / "node")) << file;
    server_.Add(Cat("/dist/", file), bytes);
  }
}

TEST_F(OriginCommands, ThreeProcessesBuildGroupsFromOneAddressAtOnce) {
  const std::string build = "build " + address() + " --groups 3 --quantize Q4_K_M ";
  std::vector<ToolRun> runs(3);
  {
    std::vector<std::jthread> machines;
    for (size_t i = 0; i < runs.size(); ++i) {
      machines.emplace_back([&, i] {
        const Workspace own;  // separate files for its output
        runs[i] = own.Moepack(Cat(build, "--only group:", i, i == 1 ? ",trunk,assets" : "", " -o ",
                                  (workspace_ / Cat("part-", i)).string()));
      });
    }
  }
  for (const ToolRun& run : runs) EXPECT_EQ(run.status, 0) << run.err;
  ASSERT_EQ(workspace_.Moepack("join part-2 part-0 part-1 -o joined").status, 0);
  ASSERT_EQ(workspace_.Moepack(build + "-o whole").status, 0);
  EXPECT_TRUE(ContentOf(workspace_ / "joined") == ContentOf(workspace_ / "whole"));
  EXPECT_EQ(ReadFile(workspace_ / "joined/distribution.json"),
            ReadFile(workspace_ / "whole/distribution.json"));
}

TEST_F(OriginCommands, FilesInTheHubCacheKeepTheirOrigin) {
  const std::string snapshot = Cat("hf/hub/models--owner--model/snapshots/", hub_.commit);
  std::filesystem::create_directories(workspace_ / snapshot);
  std::filesystem::copy(workspace_ / "fixtures/tiny-moe", workspace_ / snapshot);
  const std::string build = "shard-experts hf://owner/model --groups 3 --verify-source -o ";
  const ToolRun run = workspace_.Moepack(build + "out");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(hub_.cdn().requests().empty());
  for (const nlohmann::json& source : SourcesOf("out")) {
    EXPECT_EQ(source["commit"], hub_.commit);
    EXPECT_EQ(source["verified"], "whole");
  }
  const auto file = workspace_ / Cat(snapshot, "/model-00002-of-00003.safetensors");
  std::string bytes = ReadFile(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  cli::WriteAll(file, bytes);
  const ToolRun damaged = workspace_.Moepack(build + "damaged");
  EXPECT_EQ(damaged.status, 3);
  EXPECT_THAT(damaged.err, HasSubstr("model-00002-of-00003.safetensors: SHA-256: expected "));
}

TEST_F(OriginCommands, RefusesToCombinePartsOfAFileThatChangedInBetween) {
  const std::string shard = "shard-experts " + address() + " --groups 3 -o ";
  ASSERT_EQ(workspace_.Moepack(shard + "a --only trunk,assets,group:0").status, 0);
  std::string bytes = ReadFile(workspace_ / "fixtures/tiny-moe/model-00002-of-00003.safetensors");
  // Not on a page that the model version depends on.
  bytes[bytes.size() - 5000] = static_cast<char>(bytes[bytes.size() - 5000] ^ 1);
  server_.Add("/tiny-moe/model-00002-of-00003.safetensors", bytes);
  ASSERT_EQ(workspace_.Moepack(shard + "b --only group:1,group:2").status, 0);
  for (const std::string& line : {std::string("join a b -o c"), shard + "a --only group:1"}) {
    const ToolRun run = workspace_.Moepack(line);
    EXPECT_EQ(run.status, 6) << line << run.err;
    EXPECT_THAT(run.err, HasSubstr("source file \"model-00002-of-00003.safetensors\": expected "));
    EXPECT_THAT(run.err, HasSubstr("the source is another one or was changed in between"));
  }
}

TEST_F(OriginCommands, FindsTheAssetsOnAServerWithoutDirectoryPages) {
  server_.SetListing(false);
  const ToolRun far = workspace_.Moepack("build " + address() + " --groups 3 -o far");
  ASSERT_EQ(far.status, 0) << far.err;
  EXPECT_THAT(far.err, HasSubstr("makes no list of the directory: only files of the usual names"));
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o near").status, 0);
  EXPECT_TRUE(ContentOf(workspace_ / "far") == ContentOf(workspace_ / "near"));
}

TEST_F(OriginCommands, WarnsOfAServerThatRefusesMissingFiles) {
  server_.SetListing(false);
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    if (answer.status == 404) answer = Plain(403);
  });
  const ToolRun far = workspace_.Moepack("build " + address() + " --groups 3 -o far");
  ASSERT_EQ(far.status, 0) << far.err;
  EXPECT_THAT(far.err, HasSubstr(": access was refused, so these count as absent: "));
  EXPECT_THAT(far.err, HasSubstr("tokenizer.model"));
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o near").status, 0);
  EXPECT_TRUE(ContentOf(workspace_ / "far") == ContentOf(workspace_ / "near"));
}

TEST_F(OriginCommands, ASummaryDoesNotMistakeARefusalForAnEmptyDirectory) {
  server_.SetListing(false);
  server_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.path.ends_with("model.safetensors.index.json")) answer = Plain(403);
  });
  const ToolRun run = workspace_.Moepack("list-tensors " + address() + " --summary");
  EXPECT_EQ(run.status, 5) << run.out;
  EXPECT_THAT(run.err,
              HasSubstr("model.safetensors.index.json: expected the file, found status 403"));
}

TEST_F(OriginCommands, OptionsAboutServersAreRefusedForLocalSources) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o out").status, 0);
  for (const char* command :
       {"list-tensors fixtures/tiny-moe", "plan fixtures/tiny-moe --groups 2",
        "build fixtures/tiny-moe --groups 3 -o other", "verify out --against fixtures/tiny-moe",
        "verify out", "diff out out", "quantize fixtures/tiny-moe --dry-run -o a.gguf"}) {
    for (const char* option : {" --cache here", " --endpoint http://127.0.0.1:1"}) {
      const ToolRun run = workspace_.Moepack(std::string(command) + option);
      EXPECT_EQ(run.status, 2) << command << option;
      EXPECT_THAT(run.err, HasSubstr(" has no effect: ")) << command << option;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "here"));
}

}  // namespace
}  // namespace moepack::remote
