// Image layouts on web servers: any server that supports ranges can be pulled from.
#include <gmock/gmock.h>

#include <thread>

#include "libshard/base/text/text.h"
#include "tests/remote/support/nginx.h"
#include "tests/remote/support/real_server.h"
#include "tests/remote/support/remote_commands.h"

namespace moepack::remote {
namespace {

namespace fs = std::filesystem;
using cli::ToolRun;
using testing::HasSubstr;

class WebLayoutCommands : public RemoteCommands {
 protected:
  void SetUp() override {
    const ToolRun built = Build(kLocal, "out");
    ASSERT_EQ(built.status, 0) << built.err;
    published_ = workspace_.Json("publish out layout:web/models:v1 --json");
  }
  std::string Layout(const std::string& origin) const {
    return Cat("layout+", origin, "/models:v1");
  }
  void Serve(const std::string& path, const std::string& directory) {
    for (const auto& entry : fs::recursive_directory_iterator(workspace_ / directory)) {
      const std::string name = fs::relative(entry.path(), workspace_ / directory).string();
      if (entry.is_regular_file()) server_.Add(path + name, cli::ReadFile(entry.path()));
    }
  }
  // The files that the layout gives on this machine, without the lock.
  void ExpectAsFromHere(const std::string& out) const {
    ASSERT_EQ(Moepack("pull layout:web/models:v1 --group 1 -o here").status, 0);
    fs::remove(workspace_ / "here/pulled.json");
    fs::remove(workspace_ / out / "pulled.json");
    EXPECT_TRUE(Content(out) == Content("here"));
  }
  void PullsFrom(const std::string& origin) const {
    const ToolRun run = Moepack("pull " + Layout(origin) + " --group 1 -o pulled");
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr(published_["digest"].get<std::string>()));
    EXPECT_EQ(Moepack("verify pulled --group 1").status, 0);
    ExpectAsFromHere("pulled");
    const auto listed = workspace_.Json("ls layout+" + origin + "/models --json");
    EXPECT_EQ(listed["manifests"].size(), 4u);
  }

  nlohmann::json published_;
};

TEST_F(WebLayoutCommands, AServerWithoutRangesIsNamedWithoutAnOptionThatPullLacks) {
  Serve("/models/", "web/models");
  server_.SetFault([this](const FakeRequest& request, FakeAnswer& answer) {
    if (request.path.find("/blobs/") == std::string::npos || answer.status != 206) return;
    const std::string file = request.path.substr(std::string("/models").size());
    answer = Plain(200, cli::ReadFile(workspace_ / ("web/models" + file)));
    answer.Set("Content-Type", "application/octet-stream");
  });
  const ToolRun run = Moepack("pull " + Layout(server_.origin()) + " --group 1 -o pulled");
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("the server ignores Range"));
  EXPECT_THAT(run.err, HasSubstr("use a server that knows ranges"));
  EXPECT_THAT(run.err, testing::Not(HasSubstr("--allow-full-download")));
}

TEST_F(WebLayoutCommands, FetchesOnlyOneGroup) {
  Serve("/models/", "web/models");
  server_.SetListing(false);
  PullsFrom(server_.origin());
  std::map<std::string, std::string> digests;
  for (const auto& blob : published_["blobs"]) digests[blob["blob"]] = blob["digest"];
  std::string asked;
  for (const FakeRequest& request : server_.requests()) asked += request.path + "\n";
  EXPECT_THAT(asked, HasSubstr(digests.at("trunk/trunk.safetensors").substr(7)));
  EXPECT_THAT(asked, HasSubstr(digests.at("groups/001/experts.safetensors").substr(7)));
  EXPECT_THAT(asked,
              testing::Not(HasSubstr(digests.at("groups/000/experts.safetensors").substr(7))));
}

// What an interrupted run fetched is neither pulled again nor already in the output.
TEST_F(WebLayoutCommands, CountsWhatAnEarlierRunFetchedForItself) {
  const std::string group = "groups/001/experts.safetensors";
  std::string blob;
  for (const auto& one : published_["blobs"])
    if (one["blob"] == group) blob = one["digest"].get<std::string>().substr(7);
  Serve("/models/", "web/models");
  server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    const auto range = request.Range();
    if (!request.path.ends_with(blob) || !range || range->second < 1'000'000) return;
    std::this_thread::sleep_for(std::chrono::seconds(1));  // until the other files are there
    answer = Plain(404);
  });
  const std::string pull = Cat("pull ", Layout(server_.origin()), " --group 1 -o ");
  for (const char* out : {"as-text", "as-json"}) EXPECT_NE(Moepack(pull + out).status, 0);
  server_.SetFault({});
  const ToolRun run = Moepack(pull + "as-text");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, testing::Not(HasSubstr("already there")));
  EXPECT_THAT(run.out, HasSubstr(" fetched by an earlier run; group 1\n"));
  const auto report = workspace_.Json(pull + "as-json --json");
  uint64_t resumed = 0, fetched = 0;
  for (const auto& file : report["files"])
    (file["how"] == "resumed" ? resumed : fetched) += file["bytes"].get<uint64_t>();
  EXPECT_GT(resumed, 0u);
  EXPECT_EQ(report["bytes_resumed"], resumed);
  EXPECT_EQ(report["bytes_there"], 0);
  EXPECT_EQ(report["bytes"], resumed + fetched);
}

// Every blob is compared with its digest, so a server without ETags is as good as any.
TEST_F(WebLayoutCommands, DoesNotWarnOfAServerWithoutValidators) {
  Serve("/models/", "web/models");
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer.Remove("ETag");
    answer.Remove("Last-Modified");
  });
  const ToolRun run = Moepack("pull " + Layout(server_.origin()) + " --group 1 -o pulled --strict");
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST_F(WebLayoutCommands, RefusesBlobsWithOtherBytes) {
  Serve("/models/", "web/models");
  server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    if (request.path.find("/blobs/") == std::string::npos || answer.body.size() < 100'000) return;
    answer.body[answer.body.size() / 2] ^= 1;
  });
  const ToolRun run = Moepack("pull " + Layout(server_.origin()) + " --group 1 -o pulled");
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("sha256:"));
  EXPECT_FALSE(IsThere("pulled"));
  EXPECT_FALSE(IsThere("pulled.partial"));
}

TEST_F(WebLayoutCommands, ReportsAServerWithoutALayout) {
  const ToolRun run = Moepack("pull " + Layout(server_.origin()) + " --group 1 -o pulled");
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("expected an OCI image layout, found no file oci-layout"));
  EXPECT_EQ(Moepack("publish out " + Layout(server_.origin())).status, 2);
}

TEST_F(WebLayoutCommands, PlainHttpToOtherMachinesIsRefused) {
  const ToolRun run = Moepack("pull " + Layout("http://models.example") + " --group 1 -o pulled");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("expected https, found http to models.example, which is not this "
                                 "machine\nhint: use https, or --plain-http"));
}

TEST_F(WebLayoutCommands, PullsFromALayoutServedByRclone) {
  const std::string rclone = FindProgram("rclone");
  if (rclone.empty()) GTEST_SKIP() << "rclone is not installed";
  const std::string web = (workspace_ / "web").string();
  const RealServer server(
      [&](uint16_t port) {
        return std::vector<std::string>{"/usr/bin/env", "HOME=" + web,
                                        rclone,         "serve",
                                        "http",         web,
                                        "--config",     (workspace_ / "rclone.conf").string(),
                                        "--addr",       Cat("127.0.0.1:", port)};
      },
      workspace_ / "server.log");
  ASSERT_TRUE(server.started()) << cli::ReadFile(workspace_ / "server.log");
  PullsFrom(Cat("http://127.0.0.1:", server.port()));
}

TEST_F(WebLayoutCommands, PullsFromALayoutServedByNginx) {
  if (FindProgram("nginx").empty()) GTEST_SKIP() << "nginx is not installed";
  const RealServer server(
      [&](uint16_t port) {
        return NginxCommand(workspace_ / "nginx", port, "",
                            Cat("root ", (workspace_ / "web").string(), ";"));
      },
      workspace_ / "server.log");
  ASSERT_TRUE(server.started()) << cli::ReadFile(workspace_ / "server.log");
  PullsFrom(Cat("http://127.0.0.1:", server.port()));
}

// It does not support ranges: large files are not silently fetched whole.
TEST_F(WebLayoutCommands, RefusesPythonsServerForLargeBlobs) {
  const std::string python = FindProgram("python3");
  if (python.empty()) GTEST_SKIP() << "python3 is not installed";
  const std::string web = (workspace_ / "web").string();
  const RealServer server(
      [&](uint16_t port) {
        return std::vector<std::string>{python,   "-m",        "http.server", Cat(port),
                                        "--bind", "127.0.0.1", "--directory", web};
      },
      workspace_ / "server.log");
  ASSERT_TRUE(server.started()) << cli::ReadFile(workspace_ / "server.log");
  const std::string layout = Layout(Cat("http://127.0.0.1:", server.port()));
  const ToolRun run = Moepack("pull " + layout + " --group 1 -o pulled");
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("range"));
  EXPECT_FALSE(IsThere("pulled"));
}

// 200 and the whole file for every request.
TEST_F(WebLayoutCommands, RefusesAServerWithoutRangesForLargeBlobs) {
  Serve("/models/", "web/models");
  server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    if (answer.status != 206) return;
    answer = Plain(200, cli::ReadFile(workspace_ / Cat("web", request.path)));
  });
  const ToolRun run = Moepack("pull " + Layout(server_.origin()) + " --group 1 -o pulled");
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("range"));
  EXPECT_FALSE(IsThere("pulled"));
}

TEST_F(WebLayoutCommands, PullsFromADistributionServedAsFiles) {
  Serve("/dist/", "out");
  const std::string address = server_.origin() + "/dist/";
  const ToolRun run = Moepack("pull " + address + " --group 1 -o pulled");
  ASSERT_EQ(run.status, 0) << run.err;
  ExpectAsFromHere("pulled");
  for (const FakeRequest& request : server_.requests())
    EXPECT_EQ(request.path.find("groups/000"), std::string::npos);
  EXPECT_THAT(run.out, HasSubstr(published_["digest"].get<std::string>()));
}

}  // namespace
}  // namespace moepack::remote
