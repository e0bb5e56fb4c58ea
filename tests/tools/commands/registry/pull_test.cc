#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PullCommand : public testing::Test {
 protected:
  void Publish(const std::string& options) {
    const ToolRun built = workspace_.Moepack(
        "build fixtures/tiny-moe --groups 3 --overlay-file fixtures/tiny-overlay.json -o out " +
        options);
    ASSERT_EQ(built.status, 0) << built.err;
    const ToolRun run = workspace_.Moepack("publish out layout:models:v1");
    ASSERT_EQ(run.status, 0) << run.err;
  }
  // The files of a node assembled from `distribution`.
  std::map<std::string, std::string> Node(const std::string& distribution) {
    const std::string node = "node-of-" + distribution;
    const ToolRun run = workspace_.Moepack("assemble " + distribution + " --group 1 -o " + node);
    EXPECT_EQ(run.status, 0) << run.err;
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(workspace_ / node))
      files[entry.path().filename().string()] = ReadFile(entry.path());
    return files;
  }
  Workspace workspace_;
};

TEST_F(PullCommand, APulledDistributionVerifiesAndMakesTheSameNode) {
  for (const char* options : {"", "--quantize Q4_K_M"}) {
    Publish(options);
    const ToolRun run = workspace_.Moepack("pull layout:models:v1 --group 1 -o pulled");
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("pulling group 1 of sha256:"));
    EXPECT_THAT(run.out, HasSubstr("\nnext:\n  moepack verify pulled\n"
                                   "  moepack assemble pulled --group 1 -o node-1\n"));
    EXPECT_EQ(ReadFile(workspace_ / "pulled/distribution.json"),
              ReadFile(workspace_ / "out/distribution.json"));
    EXPECT_EQ(workspace_.Moepack("verify pulled --group 1").status, 0);
    EXPECT_EQ(workspace_.Moepack("verify pulled --group 0").status, 6);
    const ToolRun other = workspace_.Moepack("run pulled --group 0 --tokens 1");
    EXPECT_EQ(other.status, 5);
    EXPECT_THAT(other.err, HasSubstr("pulled/pulled.json names the groups"));
    EXPECT_TRUE(Node("pulled") == Node("out")) << options;
    for (const char* name : {"out", "models", "pulled", "node-of-pulled", "node-of-out"})
      fs::remove_all(workspace_ / name);
  }
}

TEST_F(PullCommand, VerifyReadsWhichGroupsWerePulled) {
  Publish("");
  ASSERT_EQ(workspace_.Moepack("pull layout:models:v1 --group 1 -o pulled").status, 0);
  ToolRun run = workspace_.Moepack("verify pulled");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("note: pulled-parts: group 0, group 2 were not pulled from "
                                 "layout:models:v1, so they were not checked\n"));
  EXPECT_EQ(workspace_.Json("verify pulled --json")["findings"][0]["rule"], "pulled-parts");
  // All of it, or other parts, if that is what is asked for.
  EXPECT_EQ(workspace_.Moepack("verify pulled --complete").status, 6);
  EXPECT_EQ(workspace_.Moepack("verify pulled --group 0").status, 6);
  // What is there is checked, pulled or not.
  fs::create_directories(workspace_ / "pulled/groups/000");
  WriteAll(workspace_ / "pulled/groups/000/experts.safetensors", "damaged");
  run = workspace_.Moepack("verify pulled");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.err, HasSubstr("hint: run the same pull again: it replaces files"));
  fs::remove_all(workspace_ / "pulled/groups/000");
  fs::remove(workspace_ / "pulled/groups/001/experts.safetensors");
  EXPECT_EQ(workspace_.Moepack("verify pulled").status, 6);
  // The lock may have been edited.
  WriteAll(workspace_ / "pulled/pulled.json",
           R"({"version": 1, "reference": "x", "digest": "sha256:)" + std::string(64, 'a') +
               R"(", "groups": [7], "overlay": null})");
  run = workspace_.Moepack("verify pulled");
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("pulled/pulled.json: groups: expected numbers below 3, found 7"));
}

TEST_F(PullCommand, SaysWhichSignatureWasChecked) {
  Publish("");
  ASSERT_EQ(workspace_.Moepack("keygen -o release").status, 0);
  ASSERT_EQ(workspace_.Moepack("keygen -o other").status, 0);
  const auto signed_set = workspace_.Json("sign layout:models:v1 --key release.key --json");
  const std::string id = signed_set["key"]["id"], digest = signed_set["manifests"][0]["digest"];
  const std::string pull = "pull layout:models:v1 --group 1 -o pulled ";
  const ToolRun run = workspace_.Moepack(pull + "--key other.pub --key release.pub");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\nmanifest " + digest +
                                 "\nmanifest signed by release.pub (ECDSA "
                                 "P-256, key " +
                                 id + ") as moepack.local/layout\n"));
  const auto json = workspace_.Json(pull + "--key release.pub --json");
  EXPECT_EQ(json["digest"], digest);
  ASSERT_EQ(json["signatures"].size(), 1u);
  EXPECT_EQ(json["signatures"][0]["key"]["id"], id);
  EXPECT_EQ(json["signatures"][0]["key"]["file"], "release.pub");
  EXPECT_EQ(json["signatures"][0]["digest"], digest);
  EXPECT_EQ(workspace_.Json(pull + "--json")["signatures"].size(), 0u);
}

// The text was the same on both sides of "expected ..., found ...".
TEST_F(PullCommand, SaysThatAPulledDistributionWasChangedSince) {
  Publish("");
  const std::string pull = "pull layout:models:v1 --group 1 -o pulled";
  ASSERT_EQ(workspace_.Moepack(pull).status, 0);
  WriteAll(workspace_ / "pulled/distribution.json",
           ReadFile(workspace_ / "pulled/distribution.json") + "\n");
  const std::string before = workspace_.Listing();
  const ToolRun run = workspace_.Moepack(pull);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, testing::ContainsRegex(
                           "pulled: already exists: distribution.json: expected sha256:[0-9a-f]{64}"
                           " as it was pulled, found sha256:[0-9a-f]{64}\n"));
  const size_t at = run.err.find("sha256:");
  EXPECT_EQ(run.err.find(run.err.substr(at, 71), at + 1), run.err.npos) << "twice the same";
  EXPECT_THAT(run.err, HasSubstr("by eval --record for instance"));
  EXPECT_EQ(workspace_.Listing(), before);
  EXPECT_EQ(workspace_.Moepack(pull + " --update").status, 0);
}

TEST_F(PullCommand, SaysThatASignatureOfTheFilesIsStale) {
  Publish("");
  ASSERT_EQ(workspace_.Moepack("pull layout:models:v1 --group 1 -o pulled").status, 0);
  ASSERT_EQ(workspace_.Moepack("keygen -o release").status, 0);
  ASSERT_EQ(workspace_.Moepack("sign pulled --oms --key release.key").status, 0);
  EXPECT_EQ(workspace_.Moepack("pull layout:models:v1 --group 1 -o pulled").err.find("model.sig"),
            std::string::npos);
  const ToolRun run = workspace_.Moepack("pull layout:models:v1 --group 0 -o pulled");
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err,
              HasSubstr("pulled/model.sig: it signs the files as they were before; sign them again "
                        "with `moepack sign pulled --oms --key KEY.key --force`"));
  EXPECT_EQ(workspace_.Moepack("verify pulled --oms --key release.pub").status, 6);
  EXPECT_EQ(workspace_.Moepack("sign pulled --oms --key release.key --force").status, 0);
  EXPECT_EQ(workspace_.Moepack("verify pulled --oms --key release.pub").status, 0);
}

TEST_F(PullCommand, GroupsMayBeListedAndAddedLater) {
  Publish("");
  const auto first = workspace_.Json("pull layout:models:v1 --group 0,2 -o pulled --json");
  EXPECT_EQ(first["groups"], nlohmann::json({0, 2}));
  EXPECT_EQ(first["extended"], false);
  const auto more = workspace_.Json("pull layout:models:v1-g001 -o pulled --json");
  EXPECT_EQ(more["extended"], true);
  EXPECT_EQ(more["groups"], nlohmann::json({1}));
  EXPECT_LT(more["bytes_there"], more["bytes"]);
  EXPECT_EQ(workspace_.Moepack("verify pulled --complete").status, 0);
}

TEST_F(PullCommand, AssembleAlsoMakesTheNode) {
  Publish("--quantize Q4_K_M");
  const ToolRun run =
      workspace_.Moepack("pull layout:models:v1 --group 1 -o pulled --assemble node");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\nrun it:\n  llama-server -m node/node-00001-of-00003.gguf\n"));
  EXPECT_EQ(workspace_.Moepack("verify node").status, 0);
  const ToolRun again =
      workspace_.Moepack("pull layout:models:v1 --group 1 -o pulled --assemble node");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("node already exists"));
  EXPECT_EQ(
      workspace_.Moepack("pull layout:models:v1 --group 0,1 -o pulled --assemble other").status, 2);
  EXPECT_FALSE(fs::exists(workspace_ / "other"));
}

TEST_F(PullCommand, AssembleNeedsOneGroupOfThoseThatTheOutputHas) {
  Publish("");
  ASSERT_EQ(workspace_.Moepack("pull layout:models:v1 --group 0,1 -o pulled").status, 0);
  for (const std::string groups : {"", "--group 0,1 "}) {
    const ToolRun run =
        workspace_.Moepack("pull layout:models:v1 " + groups + "-o pulled --assemble node");
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, HasSubstr("--assemble: expected one group, found groups 0, 1"));
  }
  EXPECT_FALSE(fs::exists(workspace_ / "node"));
  EXPECT_EQ(workspace_.Moepack("pull layout:models:v1 --group 1 -o pulled --assemble node").status,
            0);
}

TEST_F(PullCommand, SaysThatThePullIsCompleteIfTheNodeIsNot) {
  Publish("--recipe Q4_K_M");
  // Nothing is there, so it is refused only when the node is written.
  const ToolRun run =
      workspace_.Moepack("pull layout:models:v1 --group 1 -o pulled --assemble /proc/node");
  EXPECT_EQ(run.status, 5);
  EXPECT_EQ(workspace_.Moepack("verify pulled").status, 0);
  EXPECT_THAT(run.err, HasSubstr("pulled holds all that was pulled, but /proc/node was not "
                                 "assembled: "));
  EXPECT_THAT(run.err, HasSubstr("`moepack assemble pulled --group 1 -o /proc/node` makes"));
}

TEST_F(PullCommand, AssembleIsRefusedBeforeAnythingIsFetched) {
  Publish("");
  const std::string before = workspace_.Listing();
  for (const char* outputs : {"-o pulled --assemble pulled", "-o pulled --assemble pulled/node",
                              "-o node/pulled --assemble node", "-o pulled --assemble models/node",
                              "-o pulled --assemble out"}) {
    const ToolRun run =
        workspace_.Moepack(std::string("pull layout:models:v1 --group 1 ") + outputs);
    EXPECT_EQ(run.status, 2) << outputs << "\n" << run.err;
    EXPECT_EQ(workspace_.Listing(), before) << outputs;
  }
}

// v2 has the overlays generalists-1 and generalists-2; `now` names v1.
class PullOverlays : public PullCommand {
 protected:
  void SetUp() override {
    Publish("--recipe Q4_K_M");
    Done("overlay out --overlay-file fixtures/tiny-overlay-2.json -o out2");
    Done("publish out layout:models:v1 --moving-tag now");
    Done("publish out2 layout:models:v2");
  }
  ToolRun Done(const std::string& arguments) {
    ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 0) << arguments << "\n" << run.err;
    return run;
  }
  // The node has the digests of its files.
  std::string NodeRecord(const std::string& node) {
    return ReadFile(workspace_ / node / "moepack_node.json");
  }
  nlohmann::json PulledOverlay() {
    return nlohmann::json::parse(ReadFile(workspace_ / "pulled/pulled.json"))["overlay"];
  }
};

TEST_F(PullOverlays, ANodeGetsTheOverlayThatWasPulled) {
  const ToolRun run = Done("pull layout:models:v2 --group 1 --overlay generalists-1 -o pulled");
  EXPECT_THAT(run.out, HasSubstr("\n  moepack assemble pulled --group 1 --overlay "
                                 "generalists-1 -o node-1\n"));
  const ToolRun verified = Done("verify pulled");
  EXPECT_THAT(verified.out,
              HasSubstr("group 0, group 2, overlay generalists-2 were not pulled from "));
  Done("pull layout:models:v2 -o pulled --assemble node");
  Done("assemble out2 --group 1 --overlay generalists-1 -o expected");
  EXPECT_EQ(NodeRecord("node"), NodeRecord("expected"));
  // Also if the directory has both.
  Done("pull layout:models:v2 --overlay generalists-2 -o pulled");
  Done("pull layout:models:v2 --overlay generalists-1 -o pulled");
  Done("pull layout:models:v2 -o pulled --assemble again");
  EXPECT_EQ(NodeRecord("again"), NodeRecord("expected"));
}

TEST_F(PullOverlays, OtherCommandsTakeTheOverlayThatWasPulled) {
  Done("pull layout:models:v2 --group 1 --overlay generalists-1 -o pulled");
  Done("assemble out2 --group 1 --overlay generalists-1 -o expected");
  const ToolRun assembled = Done("assemble pulled --group 1 -o alone");
  EXPECT_EQ(NodeRecord("alone"), NodeRecord("expected"));
  EXPECT_THAT(assembled.err, HasSubstr("note: pulled/pulled.json: overlay \"generalists-1\" was "
                                       "pulled, so it is taken instead of the current one"));
  // Also if the directory has both.
  Done("pull layout:models:v2 --overlay generalists-2 -o pulled");
  Done("pull layout:models:v2 --overlay generalists-1 -o pulled");
  Done("assemble pulled --group 1 -o both");
  EXPECT_EQ(NodeRecord("both"), NodeRecord("expected"));
  const auto replica = [&](const std::string& options) {
    return workspace_.Json("run pulled --group 1 --tokens 1,2 -n 1 --json " +
                           options)["loaded"]["replica_version"];
  };
  EXPECT_EQ(replica(""), replica("--overlay generalists-1"));
  EXPECT_NE(replica(""), replica("--overlay generalists-2"));
}

TEST_F(PullOverlays, ANodeCanBeMadeWithoutAnOverlay) {
  Done("pull layout:models:v2 --group 1 --overlay none -o pulled --assemble node");
  Done("assemble out2 --group 1 --overlay none -o expected");
  EXPECT_THAT(Done("run pulled --group 1 --tokens 1,2 -n 1").err,
              HasSubstr("pulled without an overlay, so none is taken"));
  EXPECT_EQ(NodeRecord("node"), NodeRecord("expected"));
  const ToolRun run = Done("pull layout:models:v2 -o pulled");
  EXPECT_THAT(run.out, HasSubstr("\n  moepack assemble pulled --group 1 --overlay none -o "));
  Done("pull layout:models:v2 -o pulled --assemble again");
  EXPECT_EQ(NodeRecord("again"), NodeRecord("expected"));
}

TEST_F(PullOverlays, AnUpdateKeepsTheOverlayOfTheSameSet) {
  Done("pull layout:models:v2 --group 1 --overlay generalists-1 -o pulled");
  Done("pull layout:models:v2 -o pulled --update");
  EXPECT_EQ(PulledOverlay(), "generalists-1");
  Done("pull layout:models:v2-g000 -o pulled");  // a view of it
  EXPECT_EQ(PulledOverlay(), "generalists-1");
  EXPECT_FALSE(fs::exists(workspace_ / "pulled/overlays/generalists-2"));
}

TEST_F(PullOverlays, AnUpdateToAnotherSetTakesItsCurrentOverlay) {
  Done("pull layout:models:now --group 1 --overlay generalists-1 -o pulled");
  Done("publish out2 layout:models:v2 --moving-tag now");
  Done("pull layout:models:now -o pulled --update");
  EXPECT_EQ(PulledOverlay(), "generalists-2");
}

TEST_F(PullCommand, ADryRunWritesNothing) {
  Publish("");
  const std::string before = workspace_.Listing();
  const auto dry = workspace_.Json("pull layout:models:v1 --group 1 -o pulled --dry-run --json");
  EXPECT_EQ(workspace_.Listing(), before);
  const auto real = workspace_.Json("pull layout:models:v1 --group 1 -o pulled --json");
  EXPECT_EQ(dry["bytes"], real["bytes"]);
  EXPECT_EQ(dry["digest"], real["digest"]);
}

TEST_F(PullCommand, ErrorsHaveTheirExitStatus) {
  Publish("");
  const std::string before = workspace_.Listing();
  const std::pair<const char*, int> cases[] = {
      {"pull oci://models:v1 --group 1 -o pulled", 2},
      {"pull layout:models:v1 -o pulled", 2},
      {"pull layout:models:v1 --group 7 -o pulled", 2},
      {"pull layout:models:v1 --group 1,x -o pulled", 2},
      {"pull layout:models:v2 --group 1 -o pulled", 5},
      {"pull layout:absent:v1 --group 1 -o pulled", 5},
      {"pull layout:out --group 1 -o pulled", 5},
      {"pull layout:models:v1 --group 1 -o models/pulled", 2},
      {"pull layout:models:v1 --group 1 -o fixtures", 2},
  };
  for (const auto& [command, status] : cases) {
    const ToolRun run = workspace_.Moepack(command);
    EXPECT_EQ(run.status, status) << command << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr("error: ")) << command;
  }
  EXPECT_EQ(workspace_.Listing(), before);
}

}  // namespace
}  // namespace moepack::cli
