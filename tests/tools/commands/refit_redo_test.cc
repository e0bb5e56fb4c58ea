// verify --redo recomputes one layer of a refit.
#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kRedoTexts = " --text fixtures/texts/manual.md fixtures/texts/header.txt ";

class VerifyRedo : public testing::Test {
 protected:
  VerifyRedo() {
    static MadeOnce out(Refit("out") + "ridge,router", {"out", "out.refit"});
    out.CopyInto(workspace_);
  }
  // Of other parameters.
  void CopyOther() const {
    static MadeOnce other(Refit("other") + "ridge --lambda 0.5", {"other", "other.refit"});
    other.CopyInto(workspace_);
  }
  static std::string Refit(const std::string& out) {
    return "build fixtures/tiny-moe --groups 2 --refit -o " + out + kRedoTexts +
           " --no-verify --context 64 --least-tokens 20 --steps ";
  }
  ToolRun Redo(const std::string& rest) const {
    return workspace_.Moepack("verify out --against fixtures/tiny-moe " + rest);
  }
  // Refused before anything is read or computed: the report is not printed.
  void ExpectRedoRefused(const std::string& rest, int status, const std::string& message) const {
    const ToolRun run = Redo(rest);
    EXPECT_EQ(run.status, status) << run.out;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_EQ(run.out, "");
  }

  Workspace workspace_;
};

TEST_F(VerifyRedo, ARecomputedLayerHasTheSameBits) {
  const ToolRun run = Redo(std::string("--redo 1") + kRedoTexts);
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("note: refit-redo: layer 1: 2 groups, "));
  EXPECT_THAT(run.out, HasSubstr(" values: the same bits\n"));
  EXPECT_THAT(run.out, HasSubstr(" bytes, compared with the refit store\n"));
}

// The store's files match its record, so only a refit can make a wrong one.
TEST_F(VerifyRedo, FindsBitsThatTheRefitDoesNotGive) {
  CopyOther();
  // Its record claims the method of the first.
  std::string record = ReadFile(workspace_ / "other/distribution.json");
  const auto exchange = [&](const std::string& from, const std::string& to) {
    const size_t at = record.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    record.replace(at, from.size(), to);
  };
  exchange("\"lambda\": \"0.5\"", "\"lambda\": \"0.25\"");
  WriteAll(workspace_ / "other/distribution.json", record);
  std::string store = ReadFile(workspace_ / "other.refit/refit.json");
  const size_t at = store.find("\"lambda\": \"0.5\"");
  ASSERT_NE(at, std::string::npos);
  store.replace(at, 15, "\"lambda\": \"0.25\"");
  WriteAll(workspace_ / "other.refit/refit.json", store);
  const ToolRun run = workspace_.Moepack(
      std::string("verify other --against fixtures/tiny-moe --redo 0") + kRedoTexts);
  EXPECT_EQ(run.status, 6) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("FAIL  refit-redo"));
  EXPECT_THAT(run.out, HasSubstr("error: refit-redo: layer 0, group 0: error after: expected 0."));
  EXPECT_THAT(run.out, HasSubstr("down: expected the bits of the store, found others in "));
}

TEST_F(VerifyRedo, RefusesTextsLayersAndStoresOtherThanThoseOfTheRefit) {
  ExpectRedoRefused("--redo 1 --text fixtures/texts/manual.md", 6,
                    "--text: expected the texts of the refit, found others than manual.md, "
                    "header.txt");
  ExpectRedoRefused(std::string("--redo 7") + kRedoTexts, 2, "--redo: layer 7 was not refitted");
  ExpectRedoRefused(std::string("--redo 1 --refit-store nothing") + kRedoTexts, 5,
                    "nothing/refit.json");
  CopyOther();
  ExpectRedoRefused(std::string("--redo 1 --refit-store other.refit") + kRedoTexts, 6,
                    "other.refit: record: expected that of out/distribution.json, found another");
}

// A group that does not exist is refused before bundles are read.
TEST_F(VerifyRedo, ChecksItsArgumentsAndTextsBeforeTheBundles) {
  const std::string group = " --group 7";
  ExpectRedoRefused("--redo 9" + group + kRedoTexts, 2, "--redo: layer 9 was not refitted");
  ExpectRedoRefused("--redo 1" + group, 2, "--text or --tokens is required");
  ExpectRedoRefused("--redo 1 --text nothing.txt" + group, 5, "nothing.txt");
  ExpectRedoRefused("--redo 1 --tokens nothing.txt" + group, 5, "nothing.txt");
  ExpectRedoRefused("--redo 1 --text fixtures/texts/header.txt" + group, 6,
                    "--text: expected the texts of the refit");
  ExpectRedoRefused("--redo 1" + group + kRedoTexts, 2, "group: expected 0 to 1, found 7");
}

TEST_F(VerifyRedo, ALayerThatCannotBeComputedAgainIsAFinding) {
  const std::string group = workspace_ / "out/groups/001/experts.safetensors";
  std::string bytes = ReadFile(group);
  bytes[bytes.size() - 100] ^= 1;
  WriteAll(group, bytes);
  for (const char* file : {"out/distribution.json", "out.refit/refit.json"}) {
    std::string record = ReadFile(workspace_ / file);
    const std::string none = R"("top_k": "0")";
    const size_t at = record.find(none);
    ASSERT_NE(at, std::string::npos) << file;
    record.replace(at, none.size(), R"("top_k": "16")");
    WriteAll(workspace_ / file, record);
  }
  const ToolRun run = Redo(std::string("--redo 1") + kRedoTexts);
  EXPECT_EQ(run.status, 6) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("FAIL  file-sha256"));
  EXPECT_THAT(run.out, HasSubstr("FAIL  refit-redo"));
  EXPECT_THAT(run.out,
              HasSubstr("error: refit-redo: layer 1: expected one that can be computed again, "
                        "found an error: --top-k: expected at most 8"));
  EXPECT_THAT(run.err, HasSubstr("error: out: verification failed: "));
}

TEST_F(VerifyRedo, ReportsADamagedManifest) {
  const std::string text = ReadFile(workspace_ / "out/distribution.json");
  WriteAll(workspace_ / "out/distribution.json", text.substr(0, text.size() - 10));
  const ToolRun run = Redo(std::string("--redo 1") + kRedoTexts);
  EXPECT_EQ(run.status, 6) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("FAIL  manifest-schema"));
  EXPECT_THAT(run.out, HasSubstr("FAIL  refit-redo"));
}

// No record of another executor is continued or checked by the cpu.
TEST_F(VerifyRedo, OpensTheExecutorOfTheRefit) {
  for (const char* file : {"out/distribution.json", "out.refit/refit.json"}) {
    std::string record = ReadFile(workspace_ / file);
    const std::string before = "\"fold\":";
    const size_t at = record.find(before);
    ASSERT_NE(at, std::string::npos) << file;
    record.replace(at, before.size(), "\"executor\": \"abacus\",\n    " + before);
    WriteAll(workspace_ / file, record);
  }
  ExpectRedoRefused(
      std::string("--redo 1") + kRedoTexts, 3,
      "out.refit: parameter executor: expected one of cpu, vulkan, cuda, found \"abacus\"");
}

TEST_F(VerifyRedo, OptionsThatNeedEachOtherAreNamed) {
  const ToolRun alone = workspace_.Moepack("verify out --redo 1");
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, HasSubstr("--against"));
  const ToolRun text = Redo(kRedoTexts);
  EXPECT_EQ(text.status, 2);
  EXPECT_THAT(text.err, HasSubstr("--redo"));
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o plain --no-verify").status,
            0);
  const ToolRun plain = workspace_.Moepack(
      std::string("verify plain --against fixtures/tiny-moe --redo 1") + kRedoTexts);
  EXPECT_EQ(plain.status, 2);
  EXPECT_THAT(plain.err,
              HasSubstr("plain/distribution.json: expected a refitted distribution, found none"));
}

}  // namespace
}  // namespace moepack::cli
