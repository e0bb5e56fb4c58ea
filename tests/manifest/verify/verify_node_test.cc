#include "manifest/verify/verify_node.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "manifest/document/node_record.h"
#include "tests/manifest/node/assemble_sample.h"

namespace moepack::manifest {
namespace {

using nlohmann::ordered_json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class VerifyNodeTest : public AssembleNodeTest {
 protected:
  void MakeNode(const std::string& layout = "qwen3-moe") {
    Split(layout);
    const auto report = Assemble(Group(1));
    ASSERT_TRUE(report) << report.error().message;
  }
  VerifyReport Verify(const VerifyOptions& options = {}) {
    const auto report = VerifyNode((dir_ / "node").string(), options);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : VerifyReport();
  }
  // The rules with an error.
  std::set<std::string> Broken(const VerifyOptions& options = {}) {
    std::set<std::string> rules;
    for (const Finding& finding : Verify(options).findings) {
      if (finding.severity == Severity::kError) rules.insert(finding.rule);
    }
    return rules;
  }
  void DamageNode(const std::string& file) {
    std::string bytes = fixtures::ReadFile(dir_ / "node" / file);
    bytes[bytes.size() - 1] ^= 1;
    fixtures::WriteFile(dir_ / "node" / file, bytes);
  }
  template <class Edit>
  void EditNodeFile(const Edit& edit) {
    auto document = ordered_json::parse(fixtures::ReadFile(dir_ / "node/moepack_node.json"));
    edit(document);
    fixtures::WriteFile(dir_ / "node/moepack_node.json", document.dump());
  }
};

using Rules = std::set<std::string>;

TEST_F(VerifyNodeTest, AFreshNodePassesEveryRule) {
  MakeNode();
  const VerifyReport report = Verify();
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.files, 6u);
  EXPECT_GT(report.bytes, 0u);
  EXPECT_GT(report.tensors, 0u);
  for (const char* rule : {"node-schema", "files-present", "no-stray-files", "file-sha256",
                           "assets-sha256", "node-model", "node-experts"}) {
    EXPECT_THAT(report.rules, Contains(rule));
  }
}

TEST_F(VerifyNodeTest, ProgressCountsTheBytesOfEveryFile) {
  MakeNode();
  uint64_t last = 0, total = 0;
  VerifyOptions options;
  options.jobs = 1;
  options.progress = [&](uint64_t done, uint64_t all) { last = done, total = all; };
  const VerifyReport report = Verify(options);
  EXPECT_EQ(last, report.bytes);
  EXPECT_EQ(total, report.bytes);
}

TEST_F(VerifyNodeTest, EveryDamagedFileIsFound) {
  MakeNode();
  VerifyOptions structure;
  structure.digests = false;
  for (const char* file :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    DamageNode(file);
    EXPECT_EQ(Broken(), Rules{"file-sha256"}) << file;
    EXPECT_EQ(Broken(structure), Rules{}) << file;
    DamageNode(file);
  }
  DamageNode("tokenizer.json");
  EXPECT_EQ(Broken(), Rules{"assets-sha256"});
}

TEST_F(VerifyNodeTest, FilesThatAreMissingOrOfAnotherSizeAreFound) {
  MakeNode();
  fs::remove(dir_ / "node/tokenizer.json");
  EXPECT_EQ(Broken(), Rules{"files-present"});
  fixtures::WriteFile(dir_ / "node/tokenizer.json", "{}");
  EXPECT_EQ(Broken(), Rules{"file-size"});
}

TEST_F(VerifyNodeTest, AStrayFileThatARuntimeReadsIsAnErrorAndAnotherAWarning) {
  MakeNode();
  fixtures::WriteFile(dir_ / "node/notes.txt", "mine");
  EXPECT_EQ(Broken(), Rules{});
  EXPECT_EQ(Verify().findings.at(0).severity, Severity::kWarning);
  fixtures::WriteFile(dir_ / "node/chat_template.jinja", "{{ x }}");
  EXPECT_EQ(Broken(), Rules{"no-stray-files"});
}

TEST_F(VerifyNodeTest, ExpertListsThatContradictTheFilesAreFound) {
  MakeNode();
  const std::string good = fixtures::ReadFile(dir_ / "node/moepack_node.json");
  for (const char* experts : {R"({"*": "1,3-4"})", R"({"*": "3-5,1"})", R"({"0": "1,3-5"})",
                              R"({"*": "1,3-5", "4000": "1"})", R"({})"}) {
    EditNodeFile([&](ordered_json& d) { d["experts"] = ordered_json::parse(experts); });
    EXPECT_EQ(Broken(), Rules{"node-experts"}) << experts;
    fixtures::WriteFile(dir_ / "node/moepack_node.json", good);
  }
}

TEST_F(VerifyNodeTest, AnOldNodeFileWithoutDigestsIsAWarning) {
  MakeNode();
  EditNodeFile([](ordered_json& d) {
    d["format_version"] = "1.0";
    for (const char* key : {"distribution", "tool", "files"}) d.erase(key);
  });
  const VerifyReport report = Verify();
  EXPECT_TRUE(report.passed());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  EXPECT_THAT(report.findings[0].message, HasSubstr("only its structure is verified"));
}

TEST_F(VerifyNodeTest, AnInvalidNodeFileIsAFindingOfItsOwn) {
  MakeNode();
  fixtures::WriteFile(dir_ / "node/moepack_node.json", "{}");
  EXPECT_EQ(Broken(), Rules{"node-schema"});
  EXPECT_THAT(Verify().findings.at(0).message, testing::Not(HasSubstr("moepack_node.json")));
}

TEST_F(VerifyNodeTest, OptionsThatNeedADistributionAreRefused) {
  MakeNode();
  VerifyOptions against;
  against.against = (dir_ / "source").string();
  const auto report = VerifyNode((dir_ / "node").string(), against);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_THAT(report.error().message, HasSubstr("--against has no effect: "));
}

}  // namespace
}  // namespace moepack::manifest
