// Refitted experts that a calibration encodes for the nodes of their groups.
#include <gmock/gmock.h>

#include <functional>

#include "tests/manifest/verify/forger.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSplitInTwo = "build fixtures/tiny-moe --groups 2 --quantize Q4_K ";
constexpr const char* kWithRefit =
    "--refit --text fixtures/texts/manual.md --most-tokens 300 --context 64 --least-tokens 20 ";
constexpr const char* kWithCalibration =
    "--calibrate fixtures/texts/manual.md --calibrate-most-tokens 400 --calibrate-context 64 "
    "--calibrate-least-tokens 8 ";
constexpr const char* kBothStores = "--refit-store out.refit --calibrated-store out.calibrated ";
constexpr const char* kCalibrationRecord = "out.calibrated/calibration.json";

// A refitted and calibrated tiny-moe with both stores.
class CalibratedGroups : public testing::Test {
 protected:
  CalibratedGroups() {
    static MadeOnce made(
        std::string(kSplitInTwo) + kWithRefit + "--steps ridge " + kWithCalibration + "-o out",
        {"out", "out.refit", "out.calibrated"});
    made.CopyInto(workspace_);
  }
  std::string Read(const std::string& name) const { return ReadFile(workspace_ / name); }
  ToolRun Build(const std::string& arguments) const {
    return workspace_.Moepack(kSplitInTwo + arguments);
  }
  nlohmann::ordered_json Record() const {
    return nlohmann::ordered_json::parse(Read(kCalibrationRecord));
  }
  void ExpectSameGroups(const std::string& a, const std::string& b) const {
    for (const char* file :
         {"groups/000/experts.gguf", "groups/001/experts.gguf", "trunk/trunk.gguf"})
      EXPECT_TRUE(Read(a + "/" + file) == Read(b + "/" + file)) << file;
  }
  Workspace workspace_;
};

TEST_F(CalibratedGroups, HaveFeedbackOfTheirOwnNodes) {
  const nlohmann::ordered_json record = Record();
  const nlohmann::ordered_json manifest =
      nlohmann::ordered_json::parse(Read("out/distribution.json"));
  EXPECT_EQ(record["groups"]["refit"], manifest["versions"]["refit"]);
  EXPECT_EQ(record["groups"], manifest["calibrated"]["groups"]);
  const auto& groups = record["groups"]["layers"];
  ASSERT_EQ(groups.size(), 2u);
  size_t refitted = 0;
  for (const auto& outcome : manifest["refit"]["layers"]) {
    const auto& layer = groups[outcome["group"].get<size_t>()][outcome["layer"].get<size_t>()];
    EXPECT_EQ(layer["matrices"], outcome["accepted"].get<bool>() ? 24 : 0);
    EXPECT_EQ(layer.contains("experts"), outcome["accepted"].get<bool>());
    if (!outcome["accepted"].get<bool>()) continue;
    EXPECT_EQ(layer["experts"].size(), 8u);
    EXPECT_GT(layer["accepted"], 8);
    EXPECT_LT(layer["error"], layer["error_plain"]);
    ++refitted;
  }
  EXPECT_GE(refitted, 4u);
  EXPECT_EQ(workspace_.Moepack("check out").status, 0);
}

TEST_F(CalibratedGroups, AreWrittenAsTheStoreHasThem) {
  const auto layer = Record()["groups"]["layers"][1][2];
  const std::string stored = Read("out.calibrated/group-001-layer-002.bin"),
                    bundle = Read("out/groups/001/experts.gguf");
  const nlohmann::ordered_json manifest =
      nlohmann::ordered_json::parse(Read("out/distribution.json"));
  size_t compared = 0;
  for (const auto& file : manifest["bundles"]) {
    if (file["file"] != "groups/001/experts.gguf") continue;
    for (const auto& own : layer["tensors"]) {
      for (const auto& tensor : file["tensors"]) {
        if (tensor["name"] != own["name"]) continue;
        EXPECT_EQ(tensor["derived"], "8-15");
        EXPECT_EQ(tensor["bytes"], own["bytes"]);
        EXPECT_TRUE(bundle.compare(tensor["offset"], tensor["bytes"], stored, own["offset"],
                                   own["bytes"]) == 0);
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 3u);
  const std::string plain = std::string("--no-verify --refit-store out.refit -o plain");
  ASSERT_EQ(Build(plain).status, 0);
  EXPECT_EQ(Read("plain/groups/001/experts.gguf").size(), bundle.size());
}

TEST_F(CalibratedGroups, HaveTheSameBytesForEveryNumberOfThreadsAndEveryMemory) {
  for (const char* resources :
       {"--jobs 1 --calibrate-memory 16MB ", "--jobs 2 --calibrate-memory 2GB "}) {
    const ToolRun run = Build(std::string(kWithCalibration) + resources +
                              "--refit-store out.refit --calibrated-store own --no-verify --force "
                              "-o again");
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(Read("own/calibration.json") == Read(kCalibrationRecord)) << resources;
    ExpectSameGroups("again", "out");
    std::filesystem::remove_all(workspace_ / "own");
  }
}

// As a kill in the middle of the second group leaves it.
TEST_F(CalibratedGroups, GoOnAfterTheLastLayerOfAKilledRun) {
  const std::string whole = Read(kCalibrationRecord);
  nlohmann::ordered_json record = Record();
  auto& layers = record["groups"]["layers"][1];
  layers.erase(layers.begin() + 1, layers.end());
  WriteAll(workspace_ / kCalibrationRecord, record.dump());
  WriteAll(workspace_ / "out.calibrated/group-001-layer-001.bin", "half");
  const ToolRun unfinished = Build(std::string(kBothStores) + "-o early");
  EXPECT_EQ(unfinished.status, 3);
  EXPECT_THAT(unfinished.err, HasSubstr("group 1, layer 1: expected what became of its refitted"));
  const ToolRun run = Build(std::string(kBothStores) + kWithCalibration + "--no-verify -o again");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, testing::ContainsRegex("group 1, layer 0: .*; done before"));
  EXPECT_THAT(run.err, Not(testing::ContainsRegex("group 1, layer 1: .*; done before")));
  EXPECT_TRUE(Read(kCalibrationRecord) == whole);
  ExpectSameGroups("again", "out");
}

TEST_F(CalibratedGroups, AreAddedToTheCalibrationOfTheModel) {
  nlohmann::ordered_json record = Record();
  const std::string whole = Read(kCalibrationRecord);
  record.erase("groups");
  WriteAll(workspace_ / kCalibrationRecord, record.dump());
  const ToolRun without = Build(std::string(kBothStores) + "--no-verify -o without");
  ASSERT_EQ(without.status, 0) << without.err;
  EXPECT_THAT(without.err, HasSubstr("refitted experts are encoded without feedback"));
  EXPECT_FALSE(Read("without/groups/000/experts.gguf") == Read("out/groups/000/experts.gguf"));
  EXPECT_TRUE(Read("without/trunk/trunk.gguf") == Read("out/trunk/trunk.gguf"));
  const ToolRun run = Build(std::string(kBothStores) + kWithCalibration + "--no-verify -o again");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, testing::ContainsRegex("layer 0: .*; done before"));
  EXPECT_TRUE(Read(kCalibrationRecord) == whole);
  ExpectSameGroups("again", "out");
  // What was made without them is still proved by the store, and a model without a refit is
  // written from it.
  const ToolRun verify = workspace_.Moepack(
      std::string("verify without --against fixtures/tiny-moe --imatrix out.refit/imatrix.gguf ") +
      kBothStores);
  EXPECT_EQ(verify.status, 0) << verify.err << verify.out;
  const ToolRun quantize = workspace_.Moepack(
      "quantize fixtures/tiny-moe --recipe Q4_K --calibrated-store out.calibrated -o whole.gguf");
  EXPECT_EQ(quantize.status, 0) << quantize.err;
}

TEST_F(CalibratedGroups, OfAnotherRefitAreRefused) {
  const ToolRun other = workspace_.Moepack(std::string(kSplitInTwo) + kWithRefit +
                                           "--steps router --refit-store other --no-verify -o b");
  ASSERT_EQ(other.status, 0) << other.err;
  for (const char* calibrate : {"", kWithCalibration}) {
    const ToolRun run =
        Build(std::string("--refit-store other --calibrated-store out.calibrated ") + calibrate +
              "-o again");
    EXPECT_EQ(run.status, 6) << run.err;
    EXPECT_THAT(run.err, HasSubstr("refit of the groups: expected "));
  }
}

TEST_F(CalibratedGroups, HaveWhatTheRefitChangedAndNothingElse) {
  const std::pair<std::function<void(nlohmann::ordered_json&)>, const char*> cases[] = {
      {[](auto& groups) { groups.push_back(groups[1]); }, "experts: expected \"\", found \"8-15\""},
      {[](auto& groups) {
         groups[1][2]["tensors"] = nlohmann::ordered_json::array();
         groups[1][2].erase("sha256");
       },
       "group 1: tensor \"blk.2.ffn_"},
      {[](auto& groups) { groups[1][2]["tensors"][0]["name"] = "blk.2.other.weight"; },
       "group 1: tensor \"blk.2.other.weight\": expected one of the model, found another"},
  };
  for (const auto& [change, message] : cases) {
    nlohmann::ordered_json record = Record();
    change(record["groups"]["layers"]);
    fs::copy(workspace_ / "out.calibrated", workspace_ / "changed");
    WriteAll(workspace_ / "changed/calibration.json", record.dump());
    if (record["groups"]["layers"].size() > 2) {
      for (const char* layer : {"000", "001", "002"})
        WriteAll(workspace_ / ("changed/group-002-layer-" + std::string(layer) + ".bin"),
                 Read("out.calibrated/group-001-layer-" + std::string(layer) + ".bin"));
    }
    const ToolRun run =
        Build("--refit-store out.refit --calibrated-store changed --no-verify -o again");
    EXPECT_EQ(run.status, 6) << run.err;
    EXPECT_THAT(run.err, HasSubstr(message));
    fs::remove_all(workspace_ / "changed");
  }
}

TEST_F(CalibratedGroups, AreProvedByTheirStores) {
  const std::string verify =
      "verify out --against fixtures/tiny-moe --imatrix out.refit/imatrix.gguf ";
  const ToolRun proved = workspace_.Moepack(verify + kBothStores);
  EXPECT_EQ(proved.status, 0) << proved.err << proved.out;
  // The store of the refit has the rows of the routers; experts come from that of the calibration.
  EXPECT_THAT(proved.out,
              testing::ContainsRegex("refit-bytes: 4 tensors, [0-9,]+ bytes, compared with"));
  // Both count them.
  const auto counted = [](const std::string& text) {
    const size_t end = text.find(" bytes, were encoded on texts");
    if (end == std::string::npos) return std::string();
    const size_t begin = text.rfind(": ", end);
    return text.substr(begin, end - begin);
  };
  EXPECT_FALSE(counted(proved.out).empty());
  EXPECT_EQ(counted(workspace_.Moepack("verify out").out), counted(proved.out));
  for (const char* store : {"", "--refit-store out.refit", "--calibrated-store out.calibrated"}) {
    const ToolRun run = workspace_.Moepack(verify + store);
    EXPECT_EQ(run.status, 0) << store << run.err << run.out;
  }
}

// Somebody who changes a tensor can correct every digest but those of the store's files.
TEST_F(CalibratedGroups, AVerifierFindsAForgedExpert) {
  forger::Forgery forged = forger::Forgery::Of(workspace_ / "out");
  for (Json& bundle : forged.manifest["bundles"]) {
    if (bundle["file"] != "groups/001/experts.gguf") continue;
    for (Json& tensor : bundle["tensors"]) {
      if (tensor["name"] != "blk.1.ffn_up_exps.weight") continue;
      char& byte = forged.files.at(bundle["file"])[tensor["offset"].get<size_t>() + 9];
      byte = static_cast<char>(byte ^ 1);
    }
  }
  forged.WriteTo(workspace_ / "forged");
  const std::string verify =
      "verify forged --against fixtures/tiny-moe --imatrix out.refit/imatrix.gguf ";
  const ToolRun refit = workspace_.Moepack(verify + "--refit-store out.refit");
  EXPECT_EQ(refit.status, 0) << refit.err << refit.out;
  const ToolRun run = workspace_.Moepack(verify + kBothStores);
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.out, HasSubstr("bytes made from the store of the calibration: expected xxh3"));
}

TEST_F(CalibratedGroups, AVerifierRefusesExpertsThatTheModelLacks) {
  forger::Forgery forged = forger::Forgery::Of(workspace_ / "out");
  forged.manifest["calibrated"]["groups"]["layers"][1][1]["experts"][7]["id"] = 99;
  forged.WriteTo(workspace_ / "forged");
  const ToolRun run = workspace_.Moepack(
      "verify forged --against fixtures/tiny-moe --imatrix out.refit/imatrix.gguf");
  EXPECT_EQ(run.status, 6) << run.err;
  EXPECT_THAT(run.out, HasSubstr("experts: expected ids below 16, found 99"));
}

TEST_F(CalibratedGroups, AreEncodedAgainByAVerifier) {
  const std::string verify =
      "verify out --against fixtures/tiny-moe --imatrix out.refit/imatrix.gguf --redo 1 --text "
      "fixtures/texts/manual.md --calibrated-store out.calibrated ";
  const ToolRun both = workspace_.Moepack(verify + "--refit-store out.refit");
  EXPECT_EQ(both.status, 0) << both.err << both.out;
  EXPECT_THAT(both.out, testing::ContainsRegex("group 1, layer 1: [0-9,]+ bytes: the same"));
  const ToolRun whole = workspace_.Moepack(verify);
  EXPECT_EQ(whole.status, 0) << whole.err << whole.out;
  EXPECT_THAT(whole.out, HasSubstr("group 1, layer 1: 8 refitted experts not encoded again"));
}

TEST_F(CalibratedGroups, AVerifierComparesTheFiguresOfExperts) {
  forger::Forgery forged = forger::Forgery::Of(workspace_ / "out");
  nlohmann::ordered_json record = Record();
  forged.manifest["calibrated"]["groups"]["layers"][1][1]["experts"][7]["unseen"] = 5;
  record["groups"]["layers"][1][1]["experts"][7]["unseen"] = 5;
  forged.WriteTo(workspace_ / "forged");
  WriteAll(workspace_ / kCalibrationRecord, record.dump());
  const ToolRun run = workspace_.Moepack(
      std::string("verify forged --against fixtures/tiny-moe --imatrix out.refit/imatrix.gguf "
                  "--redo 1 --text fixtures/texts/manual.md ") +
      kBothStores);
  EXPECT_EQ(run.status, 6) << run.err;
  EXPECT_THAT(run.out, HasSubstr("group 1, layer 1: expert 15: unseen: expected 5, found 0"));
}

TEST_F(CalibratedGroups, CountInADryRun) {
  const std::string build =
      std::string(kWithCalibration) + "--refit-store out.refit --calibrated-store ";
  const ToolRun dry = Build(build + "none -o dry --dry-run");
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr(" are enough) through the model and 2 groups; "));
  const nlohmann::json planned =
      workspace_.Json(kSplitInTwo + build + "none -o dry --dry-run --json");
  const nlohmann::json written =
      workspace_.Json(kSplitInTwo + build + "out.calibrated -o written --no-verify --json");
  EXPECT_EQ(planned["bytes"], written["bytes"]);
}

TEST_F(CalibratedGroups, AreDividedAmongTasks) {
  std::string together = "--version >/dev/null";
  for (const char* task : {"0", "1"})
    together += std::string("\n'" MOEPACK_BINARY "' ") + kSplitInTwo + kWithCalibration +
                "--refit-store out.refit --calibrated-store shared --jobs 1 -o again --task " +
                task + "/2 >" + task + ".out 2>&1 &";
  ASSERT_EQ(workspace_.Moepack(together + "\nwait").status, 0);
  EXPECT_THAT(Read("0.out"), HasSubstr("group 0, layer 0: "));
  EXPECT_THAT(Read("0.out"), Not(HasSubstr("group 1, layer 0: ")));
  EXPECT_THAT(Read("1.out"), HasSubstr("group 1, layer 0: "));
  EXPECT_TRUE(Read("shared/calibration.json") == Read(kCalibrationRecord)) << Read("1.out");
  const ToolRun join = workspace_.Moepack("join again.tasks -o again");
  ASSERT_EQ(join.status, 0) << join.err;
  ExpectSameGroups("again", "out");
  // With a finished store tasks need neither text nor each other.
  const ToolRun stored = Build(std::string(kBothStores) + "-o stored --task 1/2");
  EXPECT_EQ(stored.status, 0) << stored.err;
}

// Groups with the same experts get the same refit, and the same encoding.
TEST(CalibratedTwins, AreEncodedOnce) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(
      std::string("build fixtures/tiny-moe --groups 2 --partition same --eligible 6 --statistics "
                  "fixtures/statistics/profile.json --quantize Q4_K --no-verify ") +
      kWithRefit + "--steps ridge " + kWithCalibration + "-o out");
  ASSERT_EQ(run.status, 0) << run.err;
  const auto record = nlohmann::json::parse(ReadFile(workspace / kCalibrationRecord));
  EXPECT_EQ(record["groups"]["layers"][0], record["groups"]["layers"][1]);
  EXPECT_TRUE(ReadFile(workspace / "out.calibrated/group-000-layer-001.bin") ==
              ReadFile(workspace / "out.calibrated/group-001-layer-001.bin"));
}

}  // namespace
}  // namespace moepack::cli
