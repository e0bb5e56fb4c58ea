#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class PublishCommand : public testing::Test {
 protected:
  void SetUp() override {
    const ToolRun run = workspace_.Moepack(
        "build fixtures/tiny-moe --groups 3 --overlay-file fixtures/tiny-overlay.json -o out");
    ASSERT_EQ(run.status, 0) << run.err;
  }
  Workspace workspace_;
};

// The command that publish prints is run unchanged.
TEST_F(PublishCommand, PrintsWhatItWroteAndTheCommandToPullIt) {
  const ToolRun run = workspace_.Moepack("publish out layout:models:v1");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\ntrunk/trunk.safetensors"));
  EXPECT_THAT(run.out, HasSubstr("hardlink\n"));
  EXPECT_THAT(run.out, HasSubstr("\nv1-g002  new"));
  EXPECT_THAT(run.out, HasSubstr("\npublished layout:models:v1: "));
  EXPECT_THAT(run.out, HasSubstr("; 0 B already there"));
  const size_t next = run.out.find("\nnext:\n  moepack ");
  ASSERT_NE(next, run.out.npos) << run.out;
  const std::string line = run.out.substr(run.out.find("pull", next));
  EXPECT_THAT(line, HasSubstr("layout:models:v1@sha256:"));
  const ToolRun pulled = workspace_.Moepack(line.substr(0, line.find('\n')));
  EXPECT_EQ(pulled.status, 0) << pulled.err;
  EXPECT_EQ(workspace_.Moepack("verify pulled-0 --group 0").status, 0);
}

// Without views, no tag says which groups there are.
TEST_F(PublishCommand, TheCommandToPullNamesAGroupThatIsThere) {
  const std::string shard = "shard-experts fixtures/tiny-moe --groups 3 --only ";
  ASSERT_EQ(workspace_.Moepack(shard + "group:1,trunk -o some").status, 0);
  ASSERT_EQ(workspace_.Moepack(shard + "trunk -o none").status, 0);
  const std::string publish = " --allow-incomplete --no-views --json";
  const auto some = workspace_.Json("publish some layout:models:some" + publish);
  EXPECT_THAT(some["pull_command"].get<std::string>(), HasSubstr(" --group 1 -o pulled-1"));
  const auto none = workspace_.Json("publish none layout:models:none" + publish);
  EXPECT_FALSE(none.contains("pull_command"));
  const ToolRun files = workspace_.Moepack("publish none --to-dir upload --allow-incomplete");
  EXPECT_EQ(files.status, 0) << files.err;
  EXPECT_THAT(files.out, Not(HasSubstr("moepack pull")));
}

TEST_F(PublishCommand, JsonHasEveryBlobAndTag) {
  const auto document = workspace_.Json("publish out layout:models --json");
  EXPECT_EQ(document["reference"], "layout:models:latest");
  EXPECT_EQ(document["tags"].size(), 4u);
  EXPECT_EQ(document["tags"][0]["tag"], "latest");
  EXPECT_EQ(document["tags"][0]["digest"], document["digest"]);
  EXPECT_EQ(document["tags"][2]["group"], 1);
  EXPECT_GT(document["bytes_new"], document["bytes_copied"]);
  for (const auto& blob : document["blobs"]) EXPECT_TRUE(blob.contains("how")) << blob;
  const auto again = workspace_.Json("publish out layout:models --json");
  EXPECT_EQ(again["bytes_new"], 0);
  EXPECT_EQ(again["bytes_there"], document["bytes_new"]);
  EXPECT_EQ(again["tags"][0]["state"], "as it was");
}

TEST_F(PublishCommand, ADryRunPrintsTheSameBytesAndWritesNothing) {
  const std::string before = workspace_.Listing();
  const auto dry = workspace_.Json("publish out layout:models:v1 --dry-run --json");
  EXPECT_EQ(workspace_.Listing(), before);
  const auto real = workspace_.Json("publish out layout:models:v1 --json");
  EXPECT_EQ(dry["bytes_new"], real["bytes_new"]);
  EXPECT_EQ(dry["digest"], real["digest"]);
}

TEST_F(PublishCommand, ToADirectoryPrintsFilesAndTheNextCommands) {
  const ToolRun run = workspace_.Moepack("publish out --to-dir 'up load'");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\ngroups/002/experts.safetensors"));
  EXPECT_THAT(run.out, HasSubstr("\nlaid out 27."));
  EXPECT_THAT(run.out, HasSubstr("\n  hf upload owner/name 'up load'\n"));
  EXPECT_THAT(run.out, HasSubstr("\n  moepack pull hf://owner/name --group 0 -o pulled-0\n"));
  EXPECT_EQ(workspace_.Moepack("verify 'up load' --strict").status, 0);
  EXPECT_EQ(workspace_.Moepack("publish out --to-dir 'up load'").status, 2);
  EXPECT_EQ(workspace_.Moepack("publish out --to-dir 'up load' --force").status, 0);
  EXPECT_EQ(workspace_.Moepack("pull 'up load' --group 1 -o pulled").status, 0);
}

TEST_F(PublishCommand, ADryRunToADirectoryPrintsTheSameBytesAndWritesNothing) {
  const std::string before = workspace_.Listing();
  const auto dry = workspace_.Json("publish out --to-dir upload --dry-run --json");
  EXPECT_EQ(workspace_.Listing(), before);
  EXPECT_FALSE(dry.contains("upload_command"));
  const auto real = workspace_.Json("publish out --to-dir upload --json");
  EXPECT_EQ(dry["bytes"], real["bytes"]);
  EXPECT_EQ(real["upload_command"], "hf upload owner/name upload");
  for (const auto& file : real["files"]) EXPECT_TRUE(file.contains("how")) << file;
}

TEST_F(PublishCommand, ADirectoryAllowsNoReferenceTagsOrViews) {
  const std::string before = workspace_.Listing();
  for (const char* more : {"layout:models", "--no-views", "--moving-tag latest"}) {
    const ToolRun run = workspace_.Moepack(std::string("publish out --to-dir upload ") + more);
    EXPECT_EQ(run.status, 2) << more;
    EXPECT_THAT(run.err, HasSubstr(" has no effect beside --to-dir"));
  }
  const ToolRun neither = workspace_.Moepack("publish out");
  EXPECT_EQ(neither.status, 2);
  EXPECT_THAT(neither.err, HasSubstr("give REF or --to-dir"));
  EXPECT_EQ(workspace_.Moepack("publish out --to-dir ''").status, 2);
  EXPECT_EQ(workspace_.Moepack("publish absent --to-dir upload").status, 5);
  EXPECT_EQ(workspace_.Moepack("publish hf://owner/name --to-dir upload").status, 4);
  EXPECT_EQ(workspace_.Listing(), before);
}

TEST_F(PublishCommand, OptionsForAnotherKindOfPlaceAreRefused) {
  const std::string before = workspace_.Listing();
  for (const std::string place : {"layout:models", "--to-dir upload"}) {
    for (const char* option : {"--upload chunked", "--chunk-size 2MiB", "--mount-from a/b"}) {
      const ToolRun run = workspace_.Moepack("publish out " + place + " " + option);
      EXPECT_EQ(run.status, 2) << place << option;
      EXPECT_THAT(run.err, HasSubstr(" is not a registry")) << place << option;
    }
  }
  const ToolRun link = workspace_.Moepack("publish out oci://localhost:1/m --link copy");
  EXPECT_EQ(link.status, 2);
  EXPECT_THAT(link.err, HasSubstr("--link has no effect: oci://localhost:1/m is on another"));
  const ToolRun size =
      workspace_.Moepack("publish out oci://localhost:1/m --upload whole --chunk-size 2MiB");
  EXPECT_EQ(size.status, 2);
  EXPECT_THAT(size.err, HasSubstr("--chunk-size has no effect: --upload whole sends each"));
  EXPECT_EQ(workspace_.Listing(), before);
  const std::string usual = " --upload auto --chunk-size 64MiB --link auto";
  EXPECT_EQ(workspace_.Moepack("publish out layout:models" + usual).status, 0);
}

TEST_F(PublishCommand, SuggestsARegistryForANameAsDockerTakesIt) {
  ASSERT_EQ(workspace_.Moepack("keygen -o no").status, 0);
  const std::string before = workspace_.Listing();
  for (const char* name : {"localhost:5055/a:v1", "docker://localhost:5055/a:v1"}) {
    for (const std::string command :
         {"publish out @", "pull @ --group 0 -o pulled", "inspect @", "copy @ layout:models",
          "tag @ v2", "sign @ --key no.key", "verify @ --key no.pub"}) {
      std::string arguments = command;
      arguments.replace(arguments.find('@'), 1, name);
      const ToolRun run = workspace_.Moepack(arguments);
      EXPECT_NE(run.status, 0) << arguments;
      EXPECT_THAT(run.err, HasSubstr("\nhint: write oci://localhost:5055/a:v1\n")) << arguments;
    }
  }
  const ToolRun skopeo = workspace_.Moepack("publish out oci:models:v1");
  EXPECT_THAT(skopeo.err, HasSubstr("\nhint: write layout:models:v1\n"));
  EXPECT_EQ(workspace_.Listing(), before);
  // What is a directory here is not taken for a host.
  fs::create_directories(workspace_ / "models.d");
  EXPECT_THAT(workspace_.Moepack("publish out models.d/a:v1").err,
              HasSubstr("name a layout as layout:models.d/a:v1, a registry as oci://"));
}

TEST_F(PublishCommand, CommandsThatReadFilesSayHowAReferenceIsPulled) {
  const std::string pull = "pull them first, `moepack pull oci://localhost:5055/a:v1 --group 0 ";
  for (const std::string command : {"verify @", "assemble @ --group 0 -o node", "list-tensors @",
                                    "diff @ out", "build @ --groups 2 -o built"}) {
    for (const char* name : {"localhost:5055/a:v1", "oci://localhost:5055/a:v1"}) {
      const bool by_itself = name[0] == 'o' && (command == "verify @" || command == "diff @ out");
      if (by_itself) continue;  // it takes references
      std::string arguments = command;
      arguments.replace(arguments.find('@'), 1, name);
      const ToolRun run = workspace_.Moepack(arguments);
      EXPECT_EQ(run.status, 5) << arguments << run.err;
      EXPECT_THAT(run.err, HasSubstr(pull)) << arguments;
    }
  }
  EXPECT_THAT(workspace_.Moepack("gc localhost:5055/a:v1").err,
              HasSubstr("\nhint: a registry has its own garbage collection"));
  EXPECT_THAT(workspace_.Moepack("gc oci:models").err, HasSubstr("\nhint: write layout:models\n"));
  EXPECT_THAT(workspace_.Moepack("verify dir:l").err, HasSubstr("skopeo copy dir:l oci:models:v1"));
  EXPECT_THAT(workspace_.Moepack("ls dir:l").err, HasSubstr("skopeo copy dir:l oci:models:v1"));
}

TEST_F(PublishCommand, ErrorsHaveTheirExitStatus) {
  const std::string before = workspace_.Listing();
  EXPECT_EQ(workspace_.Moepack("publish out oci://models:v1").status, 2);
  EXPECT_EQ(workspace_.Moepack("publish out layout+https://example.com/models").status, 2);
  EXPECT_EQ(workspace_.Moepack("publish out models").status, 2);
  EXPECT_EQ(workspace_.Moepack("publish absent layout:models").status, 5);
  EXPECT_EQ(workspace_.Moepack("publish fixtures/tiny-moe layout:models").status, 2);
  EXPECT_EQ(workspace_.Moepack("publish hf://owner/name layout:models").status, 4);
  EXPECT_EQ(workspace_.Listing(), before);
  std::string config = ReadFile(workspace_ / "out/assets/config.json");
  config.back() = ' ';
  WriteAll(workspace_ / "out/assets/config.json", config);
  const ToolRun damaged = workspace_.Moepack("publish out layout:models");
  EXPECT_EQ(damaged.status, 6);
  EXPECT_THAT(damaged.err, HasSubstr("config.json: sha256: expected "));
  EXPECT_THAT(workspace_.Moepack("ls layout:models").out, HasSubstr("\n0 manifests\n"));
}

}  // namespace
}  // namespace moepack::cli
