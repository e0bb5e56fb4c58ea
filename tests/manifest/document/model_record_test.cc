// The rows of model_record.cc and manifest_sections.cc against the schema.
#include "manifest/document/model_record.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "manifest/document/manifest_json.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using Names = std::set<std::string>;

// What the schema says of an object: all its fields, and those that readers require.
struct SchemaFields {
  Names all, required;
};

SchemaFields InSchema(const std::string& object) {
  const std::string path = MOEPACK_SOURCE_DIR "/manifest/document/distribution.schema.json";
  const auto document = ReadJsonFile(path);
  EXPECT_TRUE(document);
  const Json& schema = (*document)["$defs"][object];
  SchemaFields fields;
  for (const auto& [name, description] : schema["properties"].items()) fields.all.insert(name);
  for (const Json& name : schema["required"]) fields.required.insert(name);
  return fields;
}

template <class Record>
SchemaFields InRows(std::span<const Field<Record>> rows) {
  SchemaFields fields;
  for (const Field<Record>& row : rows) {
    fields.all.insert(row.name);
    if (row.presence == Presence::kRequired) fields.required.insert(row.name);
  }
  return fields;
}

TEST(ModelRecordTest, TheSchemaHasTheFieldsOfTheModelAndRequiresThoseThatReadersDo) {
  const SchemaFields expected = InSchema("model"), rows = InRows(ModelFields());
  EXPECT_EQ(rows.all, expected.all);
  EXPECT_EQ(rows.required, expected.required);
}

TEST(ModelRecordTest, TheSchemaHasTheFieldsOfTheTool) {
  const SchemaFields expected = InSchema("tool");
  SchemaFields rows = InRows(ToolFields());
  rows.all.insert({"name", "parents"});  // written and read apart
  EXPECT_EQ(rows.all, expected.all);
  EXPECT_EQ(rows.required, expected.required);
}

TEST(ModelRecordTest, ReadsWhatACalibratedSourceSaysOfItself) {
  ModelRecord model = sample::Make().manifest.model;
  EXPECT_FALSE(ModelToJson(model).contains("calibrated"));
  model.calibrated = CalibrationKeys{"0123456789abcdef", "feedback-2", std::string(64, 'a'), 4000};
  Json document = ModelToJson(model);
  const auto read = ModelFromJson("m", document);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->calibrated, model.calibrated);
  document["calibrated"].erase("tokens");
  const auto wrong = ModelFromJson("m", document);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kCorrupt);
}

TEST(ModelRecordTest, WritesAnOptionalFieldOnlyIfItIsSet) {
  ModelRecord model;
  EXPECT_FALSE(ModelToJson(model).contains("scale"));
  EXPECT_FALSE(ModelToJson(model).contains("license"));
  EXPECT_EQ(ModelToJson(model)["id"], "");
  model.scale = 2.5;
  model.license.link = "LICENSE";
  EXPECT_EQ(ModelToJson(model)["scale"], 2.5);
  EXPECT_EQ(ModelToJson(model)["license"], Json({{"link", "LICENSE"}}));
}

}  // namespace
}  // namespace moepack::manifest
