// The built moepack on remote sources: results equal those of local ones, byte for byte, and every
// error has a message, a next step and an exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/remote/support/fake_hub.h"
#include "tests/remote/support/fake_s3.h"
#include "tests/remote/support/remote_commands.h"

namespace moepack::remote {
namespace {

using cli::ReadFile;
using cli::ToolRun;
using testing::HasSubstr;
using testing::Not;

TEST_F(RemoteCommands, ListTensorsPrintsTheSameForAWebServer) {
  const ToolRun far = Moepack("list-tensors " + address()),
                near = Moepack("list-tensors " + kLocal);
  EXPECT_EQ(far.status, 0) << far.err;
  EXPECT_EQ(far.out, near.out);
  EXPECT_THAT(far.err, HasSubstr("note: fetched "));
}

TEST_F(RemoteCommands, ListTensorsPrintsTheSameForTheHub) {
  FakeHub hub;
  hub.AddDirectory(workspace_ / kLocal);
  hub.token = "hf_secret";
  const ScopedVariable endpoint("HF_ENDPOINT", hub.endpoint()), token("HF_TOKEN", "hf_secret");
  const ToolRun far = Moepack("list-tensors hf://owner/model");
  EXPECT_EQ(far.status, 0) << far.err;
  EXPECT_EQ(far.out, Moepack("list-tensors " + kLocal).out);
  ASSERT_EQ(Build("hf://owner/model", "far").status, 0);
  ASSERT_EQ(Build(kLocal, "near").status, 0);
  EXPECT_TRUE(Content("far") == Content("near"));
  EXPECT_THAT(Content("far"), Not(HasSubstr("secret")));
}

TEST_F(RemoteCommands, ListTensorsPrintsTheSameForS3) {
  FakeS3 s3;
  s3.AddDirectory("models/tiny/", workspace_ / kLocal);
  const std::string user = "AKIDEXAMPLE", password = "secret";
  s3.Change([&](FakeS3::Account& account) {
    account.key = user;
    account.secret = password;
  });
  const ScopedVariable key("AWS_ACCESS_KEY_ID", user), secret("AWS_SECRET_ACCESS_KEY", password),
      region("AWS_REGION", "us-east-1");
  const std::string source = "s3://bucket/models/tiny --endpoint " + s3.endpoint();
  const ToolRun far = Moepack("list-tensors " + source);
  EXPECT_EQ(far.status, 0) << far.err;
  EXPECT_EQ(far.out, Moepack("list-tensors " + kLocal).out);
  const ToolRun built = Build(source, "far");
  ASSERT_EQ(built.status, 0) << built.err;
  ASSERT_EQ(Build(kLocal, "near").status, 0);
  EXPECT_TRUE(Content("far") == Content("near"));
}

TEST_F(RemoteCommands, ABuiltDistributionIsIdenticalAndVerifies) {
  const ToolRun far = Build(address(), "far --prove");
  ASSERT_EQ(far.status, 0) << far.err;
  ASSERT_EQ(Build(kLocal, "near").status, 0);
  EXPECT_TRUE(Content("far") == Content("near"));
  const ToolRun proof = Moepack("verify near --against " + address());
  EXPECT_EQ(proof.status, 0) << proof.err;
}

TEST_F(RemoteCommands, QuantizingConvertingAndPlanningGiveTheSameBytes) {
  for (const std::string& command :
       {std::string("quantize SRC --recipe Q4_K_M -o OUT.gguf"),
        std::string("shard-experts SRC --groups 2 --quantize Q4_K_M -o OUT"),
        std::string("plan SRC --groups 2 -o OUT.json")}) {
    for (const auto& [source, out] : {std::pair{address(), "far"}, {kLocal, "near"}}) {
      std::string line = command;
      line.replace(line.find("SRC"), 3, source).replace(line.find("OUT"), 3, out);
      const ToolRun run = Moepack(line);
      EXPECT_EQ(run.status, 0) << line << "\n" << run.err;
    }
  }
  EXPECT_EQ(ReadFile(workspace_ / "far.gguf"), ReadFile(workspace_ / "near.gguf"));
  EXPECT_EQ(ReadFile(workspace_ / "far.json"), ReadFile(workspace_ / "near.json"));
  EXPECT_TRUE(Content("far") == Content("near"));
}

TEST_F(RemoteCommands, CalibratingGivesTheSameBytes) {
  const std::string texts =
      " --calibrate fixtures/texts/manual.md --most-tokens 400 --context 64 --least-tokens 8";
  for (const auto& [source, out] : {std::pair{address(), "far"}, {kLocal, "near"}}) {
    const std::string line = Cat("quantize ", source, " --recipe Q4_K_M", texts, " -o ", out);
    const ToolRun dry = Moepack(line + ".gguf --dry-run");
    EXPECT_EQ(dry.status, 0) << line << "\n" << dry.err;
    const ToolRun run = Moepack(line + ".gguf");
    ASSERT_EQ(run.status, 0) << line << "\n" << run.err;
  }
  EXPECT_TRUE(ReadFile(workspace_ / "far.gguf") == ReadFile(workspace_ / "near.gguf"));
  const ToolRun build = Moepack("build " + address() +
                                " --groups 2 --quantize Q4_K_M --no-verify --calibrated-store "
                                "far.gguf.calibrated -o out");
  ASSERT_EQ(build.status, 0) << build.err;
  const ToolRun redo = Moepack("verify out --against " + address() +
                               " --calibrated-store near.gguf.calibrated --redo 1 --text "
                               "fixtures/texts/manual.md");
  EXPECT_EQ(redo.status, 0) << redo.err << redo.out;
  EXPECT_THAT(redo.out, HasSubstr(" bytes: the same"));
}

TEST_F(RemoteCommands, ComparesRemoteDistributions) {
  ASSERT_EQ(Build(kLocal, "near").status, 0);
  server_.Add("/dist/distribution.json", ReadFile(workspace_ / "near/distribution.json"));
  const ToolRun run = Moepack("diff near " + server_.origin() + "/dist/");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("are the same"));
}

TEST_F(RemoteCommands, ListingFetchesOnlyHeaders) {
  Moepack("list-tensors " + address());
  uint64_t weights = 0;
  for (const FakeRequest& request : server_.requests()) {
    if (request.path.ends_with(".safetensors")) {
      ASSERT_TRUE(request.Range());
      weights += request.Range()->second - request.Range()->first + 1;
    }
  }
  EXPECT_LE(weights, 3u * 131072);  // three shards
}

// 60 GB in a sparse file: a header of 60 tensors, and nothing after it.
TEST_F(RemoteCommands, ListingALargeFileFetchesOnlyItsHeader) {
  constexpr uint64_t kTensors = 60, kBytes = 1'000'000'000;
  std::string header = "{";
  for (uint64_t i = 0; i < kTensors; ++i) {
    header += Cat(i == 0 ? "" : ",", "\"model.layers.0.block_sparse_moe.experts.", i,
                  R"(.w1.weight":{"dtype":"BF16","shape":[1000,500000],"data_offsets":[)",
                  i * kBytes, ",", (i + 1) * kBytes, "]}");
  }
  header += "}";
  uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += header;
  cli::WriteAll(workspace_ / "large/x.safetensors", file);
  std::filesystem::resize_file(workspace_ / "large/x.safetensors", file.size() + kTensors * kBytes);
  server_.ServeDirectory("/large/", workspace_ / "large");
  const ToolRun run = Moepack("list-tensors " + server_.origin() + "/large/x.safetensors");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("60 tensors, 60.0 GB"));
  EXPECT_LT(server_.bytes(), 1'000'000u);
}

// The header of each shard, the experts of one group, and the gaps between them.
TEST_F(RemoteCommands, OneGroupFetchesOnlyItsTensors) {
  const ToolRun run = Moepack("build " + address() + " --groups 8 --only group:7 -o out");
  ASSERT_EQ(run.status, 0) << run.err;
  const uint64_t wanted =
      std::filesystem::file_size(workspace_ / "out/groups/007/experts.safetensors");
  uint64_t weights = 0;
  for (const FakeRequest& request : server_.requests()) {
    if (request.method == "GET" && request.path.ends_with(".safetensors")) {
      ASSERT_TRUE(request.Range());
      weights += request.Range()->second - request.Range()->first + 1;
    }
  }
  EXPECT_GE(weights, wanted);
  EXPECT_LT(weights, wanted + wanted / 4 + 3 * 131072);
}

TEST_F(RemoteCommands, NoMessageOrFileContainsSecrets) {
  const std::string secret = "http://me:s3cret@" + server_.origin().substr(7);
  const ToolRun run = Build("'" + secret + "/tiny-moe/?token=s3cret'", "far --json");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out + run.err + Content("far"), Not(HasSubstr("s3cret")));
  const ToolRun missing = Moepack("list-tensors '" + secret + "/none.gguf?token=s3cret'");
  EXPECT_EQ(missing.status, 5);
  EXPECT_THAT(missing.err, HasSubstr("/none.gguf"));
  EXPECT_THAT(missing.err, Not(HasSubstr("s3cret")));
}

TEST_F(RemoteCommands, CommandsThatNeedLocalFilesSayHowToGetThem) {
  for (const char* command : {"run --prompt x", "check", "profile -o x", "eval"}) {
    const ToolRun run = Moepack(std::string(command) + " hf://owner/model");
    EXPECT_NE(run.status, 0) << command;
    if (run.status == 2) continue;  // it needs more than a source
    EXPECT_EQ(run.status, 4) << command << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr("is an address; give a path on this machine"));
    EXPECT_THAT(run.err, HasSubstr("hf download owner/model"));
  }
}

TEST_F(RemoteCommands, PlainHttpToOtherMachinesIsRefused) {
  const ToolRun run = Moepack("list-tensors http://example.org/a.gguf");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("expected https, found http to example.org"));
  EXPECT_THAT(run.err, HasSubstr("--plain-http"));
}

}  // namespace
}  // namespace moepack::remote
