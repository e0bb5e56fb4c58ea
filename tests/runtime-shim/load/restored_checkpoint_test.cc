#include "runtime-shim/load/restored_checkpoint.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/format/safetensors.h"

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Parts with tensors of one byte per value, numbered from the part's `first`.
class LoadWholeTensors : public testing::Test {
 protected:
  struct Stored {
    std::string name;
    std::vector<uint64_t> shape;
    ExpertIds experts = {};
  };

  LoadWholeTensors() {
    family_.rules = {
        {.pattern = "layers.{L}.experts.{E}.up", .part = moepack::Part::kExpert, .role = "up"},
        {.pattern = "layers.{L}.packed",
         .part = moepack::Part::kExpert,
         .role = "up",
         .expert_axis = 0},
        {.pattern = "layers.{L}.inner",
         .part = moepack::Part::kExpert,
         .role = "up",
         .expert_axis = 1},
        {.pattern = "{**}"}};
  }

  OpenedPart Part(const std::vector<Stored>& tensors, char first, const char* dtype = "F8_E4M3") {
    OpenedPart part;
    std::string bytes;
    for (const Stored& stored : tensors) {
      manifest::PartTensor tensor;
      tensor.entry.name = stored.name;
      tensor.entry.dtype = dtype;
      tensor.entry.format = quant::FindSafetensorsFormat(dtype);
      tensor.entry.shape = stored.shape;
      tensor.entry.offset = bytes.size();
      tensor.entry.bytes = tensor.entry.Elements();
      for (uint64_t i = 0; i < tensor.entry.bytes; ++i)
        bytes += static_cast<char>(first + static_cast<char>(bytes.size()));
      records_.push_back({});
      records_.back().expert_ids = stored.experts;
      tensor.record = &records_.back();
      part.bundle.tensors.push_back(tensor);
    }
    const MemorySource source(std::string(1, first), bytes);
    part.bundle.source.path = source.name();
    part.file = std::make_shared<const MappedFile>(*MappedFile::Map(source));
    return part;
  }

  Error Refusal(const std::vector<OpenedPart>& parts) {
    FamilyMatcher matcher(family_, 2);
    WholeTensors tensors(path_, layers_, matcher);
    for (const OpenedPart& part : parts) {
      if (auto added = tensors.Add(part); !added) return added.error();
    }
    if (auto added = tensors.AddAbsent({}); !added) return added.error();
    ADD_FAILURE() << "expected a refusal";
    return {Code::kIo, ""};
  }

  // A tensor of one byte per value in a part that is not loaded.
  ListedTensor Listed(const std::string& name, const std::vector<uint64_t>& shape,
                      const char* dtype = "F8_E4M3") {
    manifest::TensorRecord& record = records_.emplace_back();
    record.name = name;
    record.dtype = dtype;
    record.shape = shape;
    record.bytes = 1;
    for (const uint64_t dimension : shape) record.bytes *= dimension;
    return {&record, "other"};
  }
  static std::vector<std::string> NamesOf(const WholeTensors& tensors) {
    std::vector<std::string> names;
    for (const WholeTensor& tensor : tensors.tensors())
      names.push_back(tensor.entry.name + " " + FormatShape(tensor.entry.shape));
    return names;
  }

  Family family_;
  const std::string path_ = "dist";
  LayerCounts layers_ = {{0, 4}, {1, 3}};
  std::deque<manifest::TensorRecord> records_;
  fixtures::TempDir dir_;
};

TEST_F(LoadWholeTensors, RestoresTheExpertAxisAndLeavesPlacesForAbsentExperts) {
  const OpenedPart trunk = Part({{"norm", {2}}}, 'A');
  const OpenedPart group =
      Part({{"layers.0.packed", {2, 3}, {1, 3}}, {"layers.1.experts.2.up", {5}, {2}}}, 'a');
  FamilyMatcher matcher(family_, 2);
  WholeTensors tensors(path_, layers_, matcher);
  ASSERT_TRUE(tensors.Add(trunk));
  ASSERT_TRUE(tensors.Add(group));
  ASSERT_TRUE(tensors.AddAbsent({Listed("layers.1.experts.0.up", {5})}));
  const auto files = tensors.LayOut();
  ASSERT_TRUE(files);
  std::vector<std::vector<std::string>> names;
  for (uint32_t i = 0; i < files->size(); ++i) {
    const WholeFile& file = (*files)[i];
    const auto parsed = ParseSafetensors("x", std::as_bytes(std::span(file.header)), file.size);
    ASSERT_TRUE(parsed) << parsed.error().message;
    names.push_back({file.name});
    for (const TensorEntry& entry : parsed->tensors) {
      names.back().push_back(entry.name);
      const auto whole =
          std::find_if(tensors.tensors().begin(), tensors.tensors().end(),
                       [&](const WholeTensor& tensor) { return tensor.entry.name == entry.name; });
      ASSERT_NE(whole, tensors.tensors().end());
      EXPECT_EQ(whole->entry.file, i);
      EXPECT_EQ(whole->entry.offset, entry.offset);
      EXPECT_EQ(whole->entry.shape, entry.shape);
    }
  }
  EXPECT_THAT(names, ElementsAre(ElementsAre("A", "norm"),
                                 ElementsAre("a", "layers.0.packed", "layers.1.experts.2.up",
                                             "layers.1.experts.1.up"),
                                 ElementsAre("other", "layers.1.experts.0.up")));
  EXPECT_THAT(tensors.tensors()[1].entry.shape, ElementsAre(4, 3));

  SourceBytes bytes;
  tensors.Locate(group, bytes);
  std::vector<ByteView> views;
  const uint64_t packed = tensors.tensors()[1].entry.offset;
  ASSERT_TRUE(bytes.Find({1, packed + 9, 3}, views));  // expert 3 is the second of the part
  EXPECT_EQ(views[0].data(), group.file->bytes().data() + 3);
  EXPECT_FALSE(bytes.Find({1, packed + 6, 3}, views));  // expert 2
}

TEST_F(LoadWholeTensors, AbsentExpertsHaveTheFormThatTheManifestLists) {
  family_.rules.insert(
      family_.rules.begin(),
      {.pattern = "layers.{L}.experts.{E}.up.{W}", .part = moepack::Part::kExpert, .role = "up"});
  FamilyMatcher matcher(family_, 2);
  WholeTensors tensors(path_, layers_, matcher);
  ASSERT_TRUE(tensors.Add(Part({{"layers.0.experts.0.up.qweight", {10, 8}, {0}},
                                {"layers.0.experts.0.up.scales", {2, 8}, {0}},
                                {"layers.0.experts.2.up.weight", {8, 20}, {2}}},
                               'a')));
  // Expert 3 is not listed, and layer 1 is in no part.
  ASSERT_TRUE(tensors.AddAbsent({Listed("layers.0.experts.1.up.weight", {8, 20}),
                                 Listed("layers.0.experts.0.up.scales", {2, 8}),
                                 Listed("layers.1.experts.0.up.weight", {8, 20})}));
  EXPECT_THAT(
      NamesOf(tensors),
      ElementsAre("layers.0.experts.0.up.qweight [10, 8]", "layers.0.experts.0.up.scales [2, 8]",
                  "layers.0.experts.2.up.weight [8, 20]", "layers.0.experts.1.up.weight [8, 20]",
                  "layers.0.experts.3.up.qweight [10, 8]", "layers.0.experts.3.up.scales [2, 8]"));
}

// Conversion reads the sizes of a packed matrix early.
TEST_F(LoadWholeTensors, AFormWhoseSmallTensorsAreNotThereIsThatOfANeighbour) {
  family_.rules.insert(
      family_.rules.begin(),
      {.pattern = "layers.{L}.experts.{E}.up.{W}", .part = moepack::Part::kExpert, .role = "up"});
  FamilyMatcher matcher(family_, 2);
  WholeTensors tensors(path_, layers_, matcher);
  ASSERT_TRUE(tensors.Add(Part({{"layers.1.experts.0.up.weight", {8, 20}, {0}}}, 'a')));
  ASSERT_TRUE(tensors.AddAbsent({Listed("layers.1.experts.1.up.weight_packed", {8, 10}),
                                 Listed("layers.1.experts.1.up.weight_shape", {2}),
                                 Listed("layers.1.experts.2.up.weight", {8, 20})}));
  EXPECT_THAT(NamesOf(tensors), ElementsAre("layers.1.experts.0.up.weight [8, 20]",
                                            "layers.1.experts.1.up.weight [8, 20]",
                                            "layers.1.experts.2.up.weight [8, 20]"));
}

TEST_F(LoadWholeTensors, ExpertsAlongAnInnerAxisAreRefusedByName) {
  const Error error = Refusal({Part({{"layers.0.inner", {3, 2}, {0, 1}}}, 'a')});
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("\"layers.0.inner\": expert axis"));
}

TEST_F(LoadWholeTensors, AnAxisThatDoesNotFitItsExpertsIsRefused) {
  const Stored wrong[] = {{"layers.0.packed", {3, 2}, {0, 1}},  // not a multiple
                          {"layers.0.packed", {2, 2}, {0, 4}},  // an id that the layer lacks
                          {"layers.7.packed", {2, 2}, {0, 1}},  // a layer without experts
                          {"layers.0.packed", {}, {0}}};        // no such axis
  for (const Stored& stored : wrong)
    EXPECT_EQ(Refusal({Part({stored}, 'a')}).code, Code::kMismatch);
}

TEST_F(LoadWholeTensors, PartsThatDisagreeAboutATensorAreRefused) {
  const OpenedPart group = Part({{"layers.0.packed", {2, 3}, {0, 1}}}, 'a');
  const OpenedPart wider = Part({{"layers.0.packed", {2, 4}, {2, 3}}}, 'b');
  const OpenedPart typed = Part({{"layers.0.packed", {2, 3}, {2, 3}}}, 'c', "F8_E5M2");
  for (const OpenedPart* other : {&wider, &typed}) {
    const Error error = Refusal({group, *other});
    EXPECT_EQ(error.code, Code::kMismatch);
    EXPECT_THAT(error.message, HasSubstr("as another part has"));
  }
}

TEST_F(LoadWholeTensors, SizesThatAreTooLargeToCountAreRefused) {
  OpenedPart part = Part({{"layers.0.packed", {1, 1}, {0}}}, 'a');
  part.bundle.tensors[0].entry.shape = {uint64_t{1} << 62, 1};
  EXPECT_EQ(Refusal({part}).code, Code::kMismatch);
}

}  // namespace
}  // namespace moepack::runtime
