#include "libshard/calibrate/calibrated_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::HasSubstr;
using Types = std::map<std::string, const quant::Format*, std::less<>>;

Types SmallTypes() {
  return {{"blk.0.attn_q.weight", quant::FindFormat("q8_0")},
          {"blk.0.ffn_up_exps.weight", quant::FindFormat("q4_K")}};
}

EncodedTensors SmallTensors() {
  EncodedTensors tensors;
  tensors["blk.0.attn_q.weight"].assign(2 * 34, std::byte{1});
  tensors["blk.0.ffn_up_exps.weight"].assign(3 * 144, std::byte{2});
  return tensors;
}

CalibratedRecord SmallCalibration() {
  CalibratedRecord record;
  record.model = std::string(16, 'a');
  record.types = TypesDigest(SmallTypes());
  record.layer_count = 1;
  record.parameters = {{"context", "512"}, {"shrink", "1"}};
  record.calibration = {{"a.txt", "prose", std::string(64, '1'), 99}};
  return record;
}

CalibratedOutcome Outcome(uint32_t layer) {
  CalibratedOutcome outcome;
  outcome.layer = layer;
  outcome.matrices = 4;
  outcome.accepted = 2;
  outcome.few_tokens = outcome.worse = 1;
  outcome.error_plain = 0.5;
  outcome.error = -0.25;  // of the part that depends on the encoding
  return outcome;
}

CalibratedOutcome NoMatrix(uint32_t layer) {
  CalibratedOutcome outcome;
  outcome.layer = layer;
  return outcome;
}

CalibratedOutcome OutcomeOfExperts(uint32_t layer) {
  CalibratedOutcome outcome = Outcome(layer);
  outcome.experts = {{1, outcome}, {2, outcome}};
  return outcome;
}

EncodedTensors TensorsOfGroup() {
  EncodedTensors tensors;
  tensors["blk.0.ffn_up_exps.weight"].assign(2 * 144, std::byte{3});
  return tensors;
}

constexpr const char* kRefit = "0123456789abcdef";

class SmallStore : public testing::Test {
 protected:
  CalibratedStoreWriter Writer(const CalibratedRecord& record = SmallCalibration()) {
    auto writer = CalibratedStoreWriter::Open(directory_, record);
    if (!writer) throw std::runtime_error(writer.error().message);
    return *std::move(writer);
  }
  // A store with layer 0.
  void Write() { ASSERT_TRUE(Writer().Add(Outcome(0), SmallTensors(), SmallTypes())); }
  void WriteFinished() {
    CalibratedStoreWriter writer = Writer();
    ASSERT_TRUE(writer.Add(Outcome(0), SmallTensors(), SmallTypes()));
    ASSERT_TRUE(writer.Add(NoMatrix(1), {}, SmallTypes()));
  }
  // The same with the only layer of group 0.
  void WriteGroup() {
    WriteFinished();
    ASSERT_TRUE(
        Writer().AddToGroup(kRefit, 0, OutcomeOfExperts(0), TensorsOfGroup(), SmallTypes()));
  }
  Error ReadError() const {
    const auto store = CalibratedStore::Open(directory_);
    if (!store) return store.error();
    const auto read = store->Read(0);
    return read ? Error{Code::kInvalidArgument, "it was read"} : read.error();
  }
  void Change(const std::function<void(Json&)>& change) const {
    Json document = *ParseJson("record", fixtures::ReadFile(directory_ / kCalibratedFile));
    change(document);
    fixtures::WriteFile(directory_ / kCalibratedFile, WriteJson(document));
  }

  fixtures::TempDir dir_;
  fs::path directory_ = dir_.path() / "store";
};

TEST_F(SmallStore, GivesBackWhatWasWritten) {
  WriteFinished();
  const auto store = CalibratedStore::Open(directory_);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_TRUE(store->record().finished());
  const auto read = store->Read(0);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, SmallTensors());
  EXPECT_TRUE(store->Check(0));
  EXPECT_TRUE(store->Check(1));
  EXPECT_FALSE(fs::exists(directory_ / CalibratedFileName(1)));
  const CalibratedRecord::Place place = store->record().Find("blk.0.ffn_up_exps.weight");
  ASSERT_NE(place.tensor, nullptr);
  EXPECT_EQ(place.layer->layer, 0u);
  EXPECT_EQ(place.tensor->offset, 68u);
  EXPECT_EQ(place.tensor->type, quant::FindFormat("q4_K"));
  EXPECT_EQ(place.layer->error, -0.25);
  EXPECT_EQ(store->record().Find("blk.1.attn_q.weight").tensor, nullptr);
}

TEST_F(SmallStore, ResumesAfterItsLastLayer) {
  Write();
  CalibratedStoreWriter again = Writer();
  EXPECT_TRUE(again.Has(0));
  EXPECT_FALSE(again.Has(1));
  const auto read = again.Read(0);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, SmallTensors());
  ASSERT_TRUE(again.Add(NoMatrix(1), {}, SmallTypes()));
  EXPECT_TRUE(CalibratedStore::Open(directory_)->record().finished());
}

TEST_F(SmallStore, HasTheRefittedExpertsOfGroups) {
  WriteGroup();
  EXPECT_TRUE(fs::exists(directory_ / "group-000-layer-000.bin"));
  const auto store = CalibratedStore::Open(directory_);
  ASSERT_TRUE(store) << store.error().message;
  const CalibratedRecord& record = store->record();
  EXPECT_TRUE(record.finished());
  ASSERT_NE(record.FindInGroup(0, 0), nullptr);
  EXPECT_EQ(record.FindInGroup(0, 0)->experts.back().id, 2u);
  EXPECT_EQ(record.FindInGroup(0, 1), nullptr);
  EXPECT_EQ(record.FindInGroup(1, 0), nullptr);
  EXPECT_EQ(record.sum().matrices, 8u);
  EXPECT_TRUE(store->CheckInGroup(0, 0));
  const auto read = store->ReadInGroup(0, 0);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, TensorsOfGroup());
  fixtures::WriteFile(directory_ / "group-000-layer-000.bin", std::string(288, 'x'));
  EXPECT_THAT(store->CheckInGroup(0, 0).error().message,
              HasSubstr("group-000-layer-000.bin: sha256: expected "));
}

TEST_F(SmallStore, HasGroupsOfOneRefit) {
  WriteGroup();
  CalibratedRecord wanted = SmallCalibration();
  wanted.groups = CalibratedGroups{kRefit, {}};
  EXPECT_EQ(Writer(wanted).record().groups->layers.size(), 1u);
  wanted.groups->refit = "fedcba9876543210";
  const auto other = CalibratedStoreWriter::Open(directory_, wanted);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kMismatch);
  EXPECT_THAT(other.error().message,
              HasSubstr("refit of the groups: expected fedcba9876543210, found 0123456789abcdef"));
}

TEST_F(SmallStore, RefusesGroupsThatAreWrong) {
  const auto layer = [](Json& document) -> Json& { return document["groups"]["layers"][0][0]; };
  const std::pair<std::function<void(Json&)>, const char*> cases[] = {
      {[](Json& d) { d["groups"]["refit"] = "x"; }, "refit: expected 16 hexadecimal digits"},
      {[](Json& d) { d["groups"]["layers"][0] = 1; }, "layers: expected an array for each group"},
      {[&](Json& d) { layer(d)["layer"] = 1; }, "layers 0: layer: expected 0, found 1"},
      {[&](Json& d) { layer(d)["experts"][1]["id"] = 1; },
       "id: expected experts in ascending order"},
      {[&](Json& d) { layer(d).erase("experts"); }, "expected rows of 0 experts, found 288 bytes"},
      {[&](Json& d) {
         Json more = layer(d);
         more["layer"] = 1;
         more["tensors"] = Json::array();
         more.erase("sha256");
         d["groups"]["layers"][0].push_back(more);
       },
       "groups: expected at most 1 layers of each"},
  };
  for (const auto& [change, message] : cases) {
    WriteGroup();
    Change(change);
    EXPECT_EQ(ReadError().code, Code::kCorrupt) << message;
    EXPECT_THAT(ReadError().message, HasSubstr(message));
    fs::remove_all(directory_);
  }
}

TEST_F(SmallStore, RefusesAnotherCalibrationAndSaysWhatDiffers) {
  Write();
  const std::pair<std::function<void(CalibratedRecord&)>, const char*> cases[] = {
      {[](auto& record) { record.model = std::string(16, 'b'); },
       "model: expected bbbbbbbbbbbbbbbb, found aaaaaaaaaaaaaaaa"},
      {[](auto& record) { record.types = std::string(64, 'c'); }, "types of the tensors: expected"},
      {[](auto& record) { record.parameters["shrink"] = "2"; },
       "parameter shrink: expected 2, found 1"},
      {[](auto& record) { record.parameters["seed"] = "7"; },
       "parameter seed: expected 7, found none"},
      {[](auto& record) { record.calibration[0].tokens = 98; },
       "calibration texts: expected those given, found others"},
  };
  for (const auto& [change, message] : cases) {
    CalibratedRecord other = SmallCalibration();
    change(other);
    const auto writer = CalibratedStoreWriter::Open(directory_, other);
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().code, Code::kMismatch);
    EXPECT_THAT(writer.error().message, HasSubstr(message));
  }
}

TEST_F(SmallStore, WithoutLayersTakesAnotherCalibration) {
  Writer();
  CalibratedRecord other = SmallCalibration();
  other.parameters["shrink"] = "2";
  EXPECT_TRUE(CalibratedStoreWriter::Open(directory_, other));
}

// As tasks have it that add the groups to a finished model.
TEST_F(SmallStore, WithGroupsAloneIsNotEmpty) {
  ASSERT_TRUE(Writer().AddToGroup(kRefit, 0, OutcomeOfExperts(0), TensorsOfGroup(), SmallTypes()));
  CalibratedRecord other = SmallCalibration();
  other.parameters["shrink"] = "2";
  const auto writer = CalibratedStoreWriter::Open(directory_, other);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kMismatch);
  EXPECT_THAT(writer.error().message, HasSubstr("parameter shrink: expected 2, found 1"));
  EXPECT_NE(Writer().record().FindInGroup(0, 0), nullptr);
}

TEST_F(SmallStore, TakesAnotherRefitWhileItHasNoGroups) {
  CalibratedRecord record = SmallCalibration();
  record.groups = CalibratedGroups{"fedcba9876543210", {}};
  ASSERT_TRUE(Writer(record).Add(Outcome(0), SmallTensors(), SmallTypes()));
  record.groups->refit = kRefit;
  CalibratedStoreWriter again = Writer(record);
  EXPECT_TRUE(again.Has(0));
  ASSERT_TRUE(again.AddToGroup(kRefit, 0, OutcomeOfExperts(0), TensorsOfGroup(), SmallTypes()));
  EXPECT_EQ(CalibratedStore::Open(directory_)->record().groups->refit, kRefit);
}

TEST_F(SmallStore, RefusesTensorsWithoutATypeAndStaysAsItIs) {
  CalibratedStoreWriter writer = Writer();
  const Status added = writer.Add(Outcome(0), SmallTensors(), {});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kMismatch);
  EXPECT_THAT(added.error().message,
              HasSubstr("tensor \"blk.0.attn_q.weight\": expected one with a type, found none"));
  EXPECT_TRUE(writer.Add(Outcome(0), SmallTensors(), SmallTypes()));
}

TEST_F(SmallStore, IsWrittenByOneRunAtATime) {
  const CalibratedStoreWriter first = Writer();
  const auto second = CalibratedStoreWriter::Open(directory_, SmallCalibration());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kIo);
  EXPECT_THAT(second.error().message, HasSubstr("another process is writing it"));
}

// For file systems without locks.
TEST_F(SmallStore, NoticesThatAnotherRunWroteIt) {
  CalibratedStoreWriter writer = Writer();
  Change([](Json& document) { document["parameters"]["shrink"] = "3"; });
  const Status added = writer.Add(Outcome(0), SmallTensors(), SmallTypes());
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kMismatch);
  EXPECT_THAT(added.error().message, HasSubstr("expected the record as this run wrote it"));
}

TEST_F(SmallStore, RefusesADirectoryWithAnythingElse) {
  fs::create_directories(directory_);
  fixtures::WriteFile(directory_ / "thesis.txt", "text");
  const auto writer = CalibratedStoreWriter::Open(directory_, SmallCalibration());
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kInvalidArgument);
  EXPECT_THAT(writer.error().message, HasSubstr("found \"thesis.txt\""));
}

TEST_F(SmallStore, ComparesSizeAndDigestOfAFile) {
  Write();
  const fs::path file = directory_ / CalibratedFileName(0);
  std::string bytes = fixtures::ReadFile(file);
  bytes[70] = 'x';
  fixtures::WriteFile(file, bytes);
  EXPECT_EQ(ReadError().code, Code::kCorrupt);
  EXPECT_THAT(ReadError().message, HasSubstr("layer-000.bin: sha256: expected "));
  fixtures::WriteFile(file, bytes.substr(1));
  EXPECT_THAT(ReadError().message, HasSubstr("bytes: expected 500 (calibration.json), found 499"));
  fs::remove(file);
  EXPECT_EQ(ReadError().code, Code::kNotFound);
}

TEST_F(SmallStore, RefusesRecordsThatAreWrong) {
  const auto tensor = [](Json& document, size_t index) -> Json& {
    return document["layers"][0]["tensors"][index];
  };
  const std::pair<std::function<void(Json&)>, const char*> cases[] = {
      {[](Json& d) { d["format"] = "moepack-refit"; }, "format: expected"},
      {[](Json& d) { d["model"] = "x"; }, "model: expected 16 hexadecimal digits"},
      {[](Json& d) { d["layers"][0]["layer"] = 1; }, "layer: expected 0, found 1"},
      {[](Json& d) { d["layers"][0].erase("sha256"); }, "sha256: expected that of a file"},
      {[](Json& d) { d["layers"][0]["error"] = "small"; }, "error: expected"},
      {[](Json& d) { d["layer_count"] = 1u << 20; }, "layer_count: expected the number of a layer"},
      {[&](Json& d) { tensor(d, 1)["offset"] = 64; },
       "offset: expected 68, the end of the tensor before it, found 64"},
      {[&](Json& d) { tensor(d, 1)["bytes"] = 145; },
       "bytes: expected blocks of 144 bytes, found 145"},
      {[&](Json& d) { tensor(d, 1)["bytes"] = UINT64_MAX / 144 * 144; },
       "bytes: expected blocks of 144 bytes"},
      {[&](Json& d) { tensor(d, 0)["type"] = "f32"; }, "type: expected a type with blocks"},
      {[&](Json& d) { tensor(d, 0)["type"] = "q9"; }, "type: expected a type with blocks"},
      {[&](Json& d) { tensor(d, 1)["name"] = tensor(d, 0)["name"]; },
       "tensor \"blk.0.attn_q.weight\": expected once, found a second one"},
      {[&](Json& d) { tensor(d, 0)["name"] = std::string(300, 'n'); },
       "expected at most 256 bytes, found 300"},
      {[](Json& d) { d["layer_count"] = 0, d["layers"].push_back({}); }, "layers 1"},
  };
  for (const auto& [change, message] : cases) {
    Write();
    Change(change);
    EXPECT_EQ(ReadError().code, Code::kCorrupt) << message;
    EXPECT_THAT(ReadError().message, HasSubstr(message));
    fs::remove_all(directory_);
  }
  Write();
  Change([](Json& document) { document["format_version"] = "2.0"; });
  EXPECT_EQ(ReadError().code, Code::kUnsupported);
}

TEST_F(SmallStore, IsNamedByTheKeysOfAGguf) {
  WriteFinished();
  GgufMetadata metadata;
  SetCalibrationKeys(CalibratedStore::Open(directory_)->record(), metadata);
  EXPECT_NE(metadata.Find("moepack.calibration.version"), nullptr);
  EXPECT_NE(metadata.Find("moepack.calibration.texts"), nullptr);
  EXPECT_NE(metadata.Find("moepack.calibration.tokens"), nullptr);
  EXPECT_NE(metadata.Find("moepack.calibration.context"), nullptr);
}

}  // namespace
}  // namespace moepack
