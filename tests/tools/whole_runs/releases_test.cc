// What moepack 1.0 wrote (fixtures/release-1.0) is still written, and read: CHANGELOG.md promises
// it.
#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using nlohmann::json;
const std::filesystem::path kRelease = MOEPACK_SOURCE_DIR "/fixtures/release-1.0";

// Members may be added, but those that were there have the value that they had.
void ExpectKept(const std::string& path, const json& before, const json& now) {
  // Of the moepack that writes, and a digest of the document that names it.
  if (path.starts_with("/tool/") || path == "/distribution/sha256") return;
  if (path == "/format_version") {  // the minor version may grow
    EXPECT_EQ(now.get<std::string>().substr(0, 2), "1.");
  } else if (before.is_object() && now.is_object()) {
    for (const auto& [name, value] : before.items()) {
      ASSERT_TRUE(now.contains(name)) << path << "/" << name;
      ExpectKept(path + "/" + name, value, now[name]);
    }
  } else if (before.is_array() && now.is_array() && before.size() == now.size()) {
    for (size_t i = 0; i < before.size(); ++i)
      ExpectKept(path + "/" + std::to_string(i), before[i], now[i]);
  } else {
    EXPECT_EQ(now, before) << path;
  }
}

class Releases : public testing::Test {
 protected:
  void Run(const std::string& command) {
    const ToolRun run = workspace_.Moepack(command);
    ASSERT_EQ(run.status, 0) << command << "\n" << run.err;
  }
  // Builds `name` as 1.0 did, and then reads what that had written about it.
  void ExpectDistribution(const std::string& name, const std::string& options) {
    Run("build fixtures/tiny-moe --groups 2 --overlay-file fixtures/tiny-overlay.json " + options +
        " -o " + name);
    const std::string before = ReadFile(kRelease / (name + ".json"));
    const auto manifest = workspace_ / name / "distribution.json";
    ExpectKept("", json::parse(before), json::parse(ReadFile(manifest)));
    WriteAll(manifest, before);
    Run("verify " + name + " --against fixtures/tiny-moe");
  }
  void ExpectNode(const std::string& of) {
    Run("assemble " + of + " --group 1 -o " + of + "-node");
    ExpectKept("", json::parse(ReadFile(kRelease / (of + "-node.json"))),
               json::parse(ReadFile(workspace_ / (of + "-node") / "moepack_node.json")));
  }
  Workspace workspace_;
};

TEST_F(Releases, GgufBundlesAndNodesAreThoseOf1_0) {
  ExpectDistribution("gguf", "--quantize Q4_K_M");
  ExpectNode("gguf");
}

TEST_F(Releases, SafetensorsBundlesAndNodesAreThoseOf1_0) {
  ExpectDistribution("safetensors", "--format safetensors");
  ExpectNode("safetensors");
}

}  // namespace
}  // namespace moepack::cli
