#include "libshard/refit/refit_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"

namespace moepack {
namespace {

using testing::HasSubstr;

RefitRecord SmallRecord() {
  RefitRecord record;
  record.steps = {"ridge"};
  record.parameters = {{"lambda", "0.01"}, {"tokens", "4096"}};
  record.calibration = {{"a.txt", "prose", std::string(64, '1'), 99}};
  record.model = std::string(16, 'a');
  record.plan = std::string(64, 'b');
  return record;
}

// Two experts of width 3 on a stream of 2.
RefittedExperts SmallExperts(uint32_t layer) {
  RefittedExperts experts;
  experts.layer = layer;
  experts.expert_ids = {1, 4};
  experts.hidden = experts.router_width = 2;
  experts.width = 3;
  experts.up = std::vector<float>(12, 0.5f);
  experts.gate = std::vector<float>(12, 0.25f);
  experts.down = std::vector<float>(12, -1.f);
  experts.router = {1, 2, 3, 4};
  experts.selection_bias = {5, 6};
  return experts;
}

RefitOutcome Accepted(uint32_t layer) {
  RefitOutcome outcome;
  outcome.layer = layer;
  outcome.accepted = true;
  outcome.error_before = 0.5;
  outcome.error_after = 0.375;
  outcome.neurons_moved = 7;
  outcome.slot_tokens = {600, 700};
  return outcome;
}

class StoreOfOneGroup : public testing::Test {
 protected:
  RefitStoreWriter Writer(const RefitRecord& record = SmallRecord()) {
    auto writer = RefitStoreWriter::Open(directory_, record);
    if (!writer) throw std::runtime_error(writer.error().message);
    return *std::move(writer);
  }
  // A store with layer 0.
  void Write() { ASSERT_TRUE(Writer().Add({Accepted(0)}, {SmallExperts(0)})); }
  Error ReadError() {
    auto store = RefitStore::Open(directory_);
    if (!store) return store.error();
    const auto read = store->Read(0, 0);
    return read ? Error{Code::kInvalidArgument, "it was read"} : read.error();
  }
  // Replaces the file of layer 0, and its digest in refit.json.
  void Replace(const std::map<std::string, std::string>& metadata,
               std::vector<fixtures::RawTensor> tensors) {
    const std::string file = fixtures::SafetensorsBytes(tensors, metadata);
    fixtures::WriteFile(directory_ / RefittedFileName(0, 0), file);
    Json document = *ParseJson("refit.json", fixtures::ReadFile(directory_ / kRefitFile));
    document["layers"][0]["sha256"] = Sha256Hex(file);
    fixtures::WriteFile(directory_ / kRefitFile, WriteJson(document));
  }

  fixtures::TempDir dir_;
  fs::path directory_ = dir_.path() / "store";
};

TEST_F(StoreOfOneGroup, GivesBackWhatWasWritten) {
  Write();
  const auto store = RefitStore::Open(directory_);
  ASSERT_TRUE(store) << store.error().message;
  const auto read = store->Read(0, 0);
  ASSERT_TRUE(read && *read) << read.error().message;
  const RefittedExperts expected = SmallExperts(0);
  EXPECT_EQ((*read)->expert_ids, expected.expert_ids);
  for (const RefittedArray& array : RefittedArrays())
    EXPECT_EQ((**read).*array.values, expected.*array.values) << array.name;
  const RefitOutcome* outcome = store->record().Find(0, 0);
  ASSERT_NE(outcome, nullptr);
  EXPECT_EQ(outcome->expert_ids, expected.expert_ids);
  EXPECT_THAT(outcome->arrays,
              testing::ElementsAre("gate", "up", "down", "router", "selection_bias"));
  EXPECT_EQ(outcome->error_after, 0.375);
  EXPECT_EQ(outcome->slot_tokens, (std::vector<uint64_t>{600, 700}));
}

TEST_F(StoreOfOneGroup, HoldsNothingForARejectedLayer) {
  RefitOutcome rejected = Accepted(0);
  rejected.accepted = false;
  ASSERT_TRUE(Writer().Add({rejected}, {}));
  const auto store = RefitStore::Open(directory_);
  ASSERT_TRUE(store) << store.error().message;
  const auto read = store->Read(0, 0);
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->has_value());
  EXPECT_TRUE(store->record().Find(0, 0)->expert_ids.empty());
  EXPECT_FALSE(fs::exists(directory_ / RefittedFileName(0, 0)));
}

TEST_F(StoreOfOneGroup, ResumesAfterItsLastLayer) {
  Write();
  RefitStoreWriter again = Writer();
  EXPECT_TRUE(again.Has(0));
  EXPECT_FALSE(again.Has(1));
  ASSERT_TRUE(again.Add({Accepted(1)}, {SmallExperts(1)}));
  const auto store = RefitStore::Open(directory_);
  ASSERT_TRUE(store);
  EXPECT_EQ(store->record().outcomes.size(), 2u);
  EXPECT_TRUE(*store->Read(1, 0));
}

TEST_F(StoreOfOneGroup, RefusesToResumeAnotherRefit) {
  Write();
  RefitRecord other = SmallRecord();
  other.parameters["lambda"] = "0.1";
  const auto writer = RefitStoreWriter::Open(directory_, other);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kMismatch);
  EXPECT_THAT(writer.error().message, HasSubstr("parameter lambda: expected "));
}

TEST_F(StoreOfOneGroup, IsWrittenByOneRefitAtATime) {
  const RefitStoreWriter first = Writer();
  RefitRecord other = SmallRecord();
  other.parameters["lambda"] = "0.1";
  for (const RefitRecord& record : {SmallRecord(), other}) {
    const auto second = RefitStoreWriter::Open(directory_, record);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kIo);
    EXPECT_THAT(second.error().message, HasSubstr("store: another process is writing it"));
  }
  EXPECT_EQ(RefitStore::Open(directory_)->record(), SmallRecord());
}

// As on a file system without locks.
TEST_F(StoreOfOneGroup, NoLayerIsAddedToARecordOfAnotherRefit) {
  RefitStoreWriter first = Writer();
  RefitRecord other = SmallRecord();
  other.parameters["lambda"] = "0.1";
  fixtures::WriteFile(directory_ / kRefitFile, WriteJson(RefitToJson(other)));
  const Status added = first.Add({Accepted(0)}, {SmallExperts(0)});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kMismatch);
  EXPECT_THAT(added.error().message, HasSubstr("expected the record as this run wrote it"));
  EXPECT_EQ(RefitStore::Open(directory_)->record(), other);
  EXPECT_FALSE(fs::exists(directory_ / RefittedFileName(0, 0)));
}

TEST_F(StoreOfOneGroup, IsBegunAgainByAnotherRefitWhileItHasNoLayers) {
  Writer();
  RefitRecord other = SmallRecord();
  other.parameters["lambda"] = "0.1";
  Writer(other);
  EXPECT_EQ(RefitStore::Open(directory_)->record(), other);
}

TEST_F(StoreOfOneGroup, RefusesADirectoryWithOtherFiles) {
  fs::create_directories(directory_);
  fixtures::WriteFile(directory_ / "refit.json.tmp-77", "of a killed run");
  Writer();
  fs::remove(directory_ / kRefitFile);
  fixtures::WriteFile(directory_ / "thesis.tex", "years of work");
  const auto writer = RefitStoreWriter::Open(directory_, SmallRecord());
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kInvalidArgument);
  EXPECT_THAT(writer.error().message,
              HasSubstr("expected a refit store or an empty directory, found \"thesis.tex\""));
  EXPECT_FALSE(fs::exists(directory_ / kRefitFile));
}

TEST_F(StoreOfOneGroup, RefusesToWriteWhatItCouldNotRead) {
  RefittedExperts experts = SmallExperts(0);
  experts.down[3] = std::numeric_limits<float>::quiet_NaN();
  Status added = Writer().Add({Accepted(0)}, {experts});
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, HasSubstr("\"down\": expected finite values, found nan"));
  experts = SmallExperts(0);
  experts.router.pop_back();
  added = Writer().Add({Accepted(0)}, {experts});
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, HasSubstr("\"router\": expected [2, 2], found 3 values"));
  experts = SmallExperts(0);
  experts.expert_ids = {4, 1};
  added = Writer().Add({Accepted(0)}, {experts});
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, HasSubstr("expected ascending ids"));
  EXPECT_FALSE(Writer().Has(0)) << "nothing was added";
}

TEST_F(StoreOfOneGroup, RefusesChangedBytes) {
  Write();
  std::string file = fixtures::ReadFile(directory_ / RefittedFileName(0, 0));
  file.back() = static_cast<char>(file.back() ^ 1);
  fixtures::WriteFile(directory_ / RefittedFileName(0, 0), file);
  EXPECT_THAT(ReadError().message, HasSubstr("sha256: expected"));
}

TEST_F(StoreOfOneGroup, NamesAFileThatIsMissing) {
  Write();
  fs::remove(directory_ / RefittedFileName(0, 0));
  const Error error = ReadError();
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("layer-000-group-000.safetensors"));
}

// A file with a single fault.
std::vector<fixtures::RawTensor> RightTensors() {
  const auto raw = [](const char* name, std::vector<uint64_t> shape, float value) {
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    const std::vector<float> values(count, value);
    return fixtures::RawTensor{
        name, "F32", std::move(shape),
        std::string(reinterpret_cast<const char*>(values.data()), count * sizeof(float))};
  };
  return {raw("gate", {2, 3, 2}, 1), raw("up", {2, 3, 2}, 1), raw("down", {2, 2, 3}, 1),
          raw("router", {2, 2}, 1), raw("selection_bias", {2}, 1)};
}

const std::map<std::string, std::string> kRightMetadata = {
    {"layer", "0"}, {"group", "0"}, {"experts", "1,4"}};

TEST_F(StoreOfOneGroup, NamesATensorOfTheWrongShape) {
  Write();
  auto tensors = RightTensors();
  tensors[2].shape = {2, 3, 2};
  Replace(kRightMetadata, tensors);
  EXPECT_THAT(ReadError().message,
              HasSubstr("tensor \"down\": expected [2, 2, 3], found [2, 3, 2]"));
}

TEST_F(StoreOfOneGroup, NamesTheTensorWithANaN) {
  Write();
  auto tensors = RightTensors();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  tensors[3].bytes.replace(4, 4, std::string(reinterpret_cast<const char*>(&nan), 4));
  Replace(kRightMetadata, tensors);
  EXPECT_THAT(ReadError().message,
              HasSubstr("tensor \"router\": expected finite values, found nan"));
}

TEST_F(StoreOfOneGroup, RefusesAFileOfAnotherLayer) {
  Write();
  Replace({{"layer", "1"}, {"group", "0"}, {"experts", "1,4"}}, RightTensors());
  EXPECT_THAT(ReadError().message, HasSubstr("layer: expected 0, found \"1\""));
}

TEST_F(StoreOfOneGroup, RefusesExpertsAndArraysThatTheRecordLacks) {
  Write();
  Replace({{"layer", "0"}, {"group", "0"}, {"experts", "1,5"}}, RightTensors());
  EXPECT_THAT(ReadError().message, HasSubstr("experts: expected \"1,4\" (refit.json), found"));
  auto tensors = RightTensors();
  tensors.pop_back();
  Replace(kRightMetadata, tensors);
  EXPECT_THAT(ReadError().message, HasSubstr("tensors: expected gate, up, down, router, "
                                             "selection_bias (refit.json), found"));
  tensors = RightTensors();
  tensors[1].name = "upwards";
  Replace(kRightMetadata, tensors);
  EXPECT_THAT(ReadError().message, HasSubstr("expected an array of a refit, found another"));
}

TEST_F(StoreOfOneGroup, RefusesRecordsThatContradictThemselves) {
  Write();
  const std::string text = fixtures::ReadFile(directory_ / kRefitFile);
  const auto error_with = [&](const std::function<void(Json&)>& change) {
    Json document = *ParseJson("refit.json", text);
    change(document);
    fixtures::WriteFile(directory_ / kRefitFile, WriteJson(document));
    const auto store = RefitStore::Open(directory_);
    return store ? std::string("it was read") : store.error().message;
  };
  EXPECT_THAT(error_with([](Json& d) { d["format"] = "moepack-plan"; }),
              HasSubstr("format: expected \"moepack-refit\""));
  EXPECT_THAT(error_with([](Json& d) { d["format_version"] = "2.0"; }),
              HasSubstr("format_version: expected 1.x"));
  EXPECT_THAT(error_with([](Json& d) { d["format_version"] = "1.0x"; }),
              HasSubstr("format_version: expected two numbers like 1.0, found \"1.0x\""));
  EXPECT_THAT(error_with([](Json& d) { d["model"] = "xyz"; }),
              HasSubstr("model: expected 16 hexadecimal digits"));
  EXPECT_THAT(error_with([](Json& d) { d["layers"].push_back(d["layers"][0]); }),
              HasSubstr("expected ascending layers and groups"));
  EXPECT_THAT(error_with([](Json& d) { d["layers"][0]["accepted"] = false; }),
              HasSubstr("experts: expected none where nothing was accepted"));
  EXPECT_THAT(error_with([](Json& d) { d["layers"][0]["error_after"] = -1; }),
              HasSubstr("error_after: expected a number of at least 0"));
  EXPECT_THAT(error_with([](Json& d) { d["layers"][0]["layer"] = 4096; }),
              HasSubstr("layer: expected a number below 4096"));
  EXPECT_THAT(error_with([](Json& d) { d["calibration"][0]["sha256"] = "1"; }),
              HasSubstr("calibration 0: sha256: expected 64 hexadecimal digits"));
}

TEST(RefitParameters, AreShownAsOptions) {
  RefitRecord record;
  record.parameters = {{"fold", "8"},
                       {"lambda", "0.01"},
                       {"session_weights", "alike"},
                       {"tokens", "1200"},
                       {"top_k", "0"}};
  EXPECT_THAT(ParameterOptions(record),
              testing::ElementsAre("--keep-back 8", "--lambda 0.01", "--most-tokens 1200"));
}

TEST(RefitVersions, ChangeWithMethodAndContent) {
  const RefitRecord record = SmallRecord();
  RefitRecord other = record;
  EXPECT_EQ(RefitVersion(other), RefitVersion(record));
  EXPECT_EQ(RefitVersion(record).size(), 16u);
  other.parameters["lambda"] = "0.1";
  EXPECT_NE(RefitVersion(other), RefitVersion(record));
  other = record;
  other.outcomes.push_back(Accepted(0));
  EXPECT_NE(RefitVersion(other), RefitVersion(record));
}

TEST(RefitPlans, DoNotDependOnTheOverlay) {
  Plan plan;
  plan.layers = {{0, 8}};
  plan.groups = {{{{0, {0, 1, 2, 3}}}, {{0, {4}}}}, {{{0, {4, 5, 6, 7}}}, {}}};
  const std::string without = RefitPlanDigest(plan);
  EXPECT_EQ(RefitSlots(plan, 0, 0), (ExpertIds{0, 1, 2, 3, 4}));
  plan.overlays.push_back({"one", "", {{0, {2, 6}}}, {{}, {{0, {5}}}}});
  EXPECT_EQ(RefitSlots(plan, 0, 0), (ExpertIds{0, 1, 3, 4}));
  EXPECT_EQ(RefitSlots(plan, 1, 0), (ExpertIds{4, 7}));
  EXPECT_NE(RefitPlanDigest(plan), without);
}

TEST(RefitRecordTest, NamesTheSessionsThatWereTaken) {
  RefitRecord record = SmallRecord();
  record.calibration[0].sessions = {"0123456789abcdef", "1123456789abcdef"};
  record.calibration[0].taken = TakenText{40, 2, 5};
  const Json document = RefitToJson(record);
  EXPECT_EQ(document["calibration"][0]["sessions"], "0123456789abcdef 1123456789abcdef");
  EXPECT_EQ(document["calibration"][0]["taken"]["of_sessions"], 5);
  EXPECT_EQ(RefitFromJson("r", document).value(), record);
}

TEST(RefitRecordTest, TextsOfAnEarlierVersionAreTheSameUnlessOnlySomeWereTaken) {
  const std::vector<CalibrationText> recorded = SmallRecord().calibration;
  std::vector<CalibrationText> found = recorded;
  found[0].sessions = {"0123456789abcdef"};
  EXPECT_TRUE(SameTexts(recorded, found));
  EXPECT_FALSE(SameTexts(found, recorded));
  found[0].taken = TakenText{40, 1, 5};
  EXPECT_FALSE(SameTexts(recorded, found));
  EXPECT_TRUE(SameTexts(found, found));
}

}  // namespace
}  // namespace moepack
