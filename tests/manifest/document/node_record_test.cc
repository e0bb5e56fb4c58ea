#include "manifest/document/node_record.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace moepack::manifest {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

NodeRecord Sample() {
  NodeRecord record;
  record.versions = {"0123456789abcdef", "123456789abcdef0", ""};
  record.group = 2;
  record.experts_by_layer = {{"10", "4,6"}, {"2", "0-1"}};
  record.distribution_sha256 = std::string(64, 'd');
  record.tool_version = "1.2.3";
  record.recipe = {"Q4_K_M", "", ""};
  record.files = {{"b.gguf", 7, std::string(64, 'b')}, {"a.gguf", 5, std::string(64, 'a')}};
  return record;
}

Error Refusal(const ordered_json& document) {
  const auto record = ParseNodeRecord("node", document.dump());
  EXPECT_FALSE(record) << document;
  return record ? Error{Code::kIo, ""} : record.error();
}

TEST(NodeRecord, ReadsBackWhatItWrites) {
  const std::string text = WriteNodeRecord(Sample());
  const auto record = ParseNodeRecord("node", text);
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(WriteNodeRecord(*record), text);
  EXPECT_EQ(record->group, 2u);
  EXPECT_EQ(record->experts_by_layer.at("10"), "4,6");
  EXPECT_EQ(record->recipe.name, "Q4_K_M");
  ASSERT_NE(record->FindFile("b.gguf"), nullptr);
  EXPECT_EQ(record->FindFile("b.gguf")->size, 7u);
  EXPECT_EQ(record->FindFile("c.gguf"), nullptr);
}

TEST(NodeRecord, SortsFilesByNameAndLayersByNumber) {
  const auto document = ordered_json::parse(WriteNodeRecord(Sample()));
  EXPECT_EQ(document["files"][0]["file"], "a.gguf");
  EXPECT_EQ(document["experts"].items().begin().key(), "2");
  EXPECT_EQ(document["tool"]["recipe"], "Q4_K_M");
  EXPECT_EQ(document["distribution"]["sha256"], std::string(64, 'd'));
}

// Version 1.0 had neither digests nor provenance.
TEST(NodeRecord, ReadsAnOldNodeFileWithoutDigests) {
  auto document = ordered_json::parse(WriteNodeRecord(Sample()));
  document["format_version"] = "1.0";
  for (const char* key : {"distribution", "tool", "files"}) document.erase(key);
  const auto record = ParseNodeRecord("node", document.dump());
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_FALSE(record->has_digests());
  EXPECT_EQ(record->group, Sample().group);
  EXPECT_TRUE(record->files.empty());
}

TEST(NodeRecord, RefusesAnInvalidNodeFileWithTheReason) {
  struct Breakage {
    const char *path, *value, *message;
  };
  for (const Breakage& broken : {
           Breakage{"/format", "\"moepack-distribution\"", "format: expected \"moepack-node\""},
           Breakage{"/format_version", "\"1\"", "format_version"},
           Breakage{"/format_version", "\"1.1x\"", "format_version: expected two numbers"},
           Breakage{"/versions/model", "\"x\"", "16 lower-case hexadecimal digits"},
           Breakage{"/group", "-1", "group"},
           Breakage{"/experts/2", "7", "expected expert ids by layer"},
           Breakage{"/experts/2", "\"3-1\"", "layer 2"},
           Breakage{"/experts", "{\"5000\": \"1\"}", "expected expert ids by layer"},
           Breakage{"/distribution", "1", "distribution: expected an object"},
           Breakage{"/tool/version", "1", "version: expected"},
           Breakage{"/files", "[]", "files: expected the files of the node, found none"},
           Breakage{"/files/0/file", "\"../x\"", "expected the name of a file beside"},
           Breakage{"/files/0/file", "\"a/b\"", "expected the name of a file beside"},
           Breakage{"/files/0/file", "\"moepack_node.json\"", "the name of a file beside"},
           Breakage{"/files/0/file", "\"b.gguf\"", "expected once, found twice"},
           Breakage{"/files/0/sha256", "\"\"", "64 lower-case hexadecimal digits"},
           Breakage{"/files/0", "1", "files: expected an object"},
       }) {
    auto document = ordered_json::parse(WriteNodeRecord(Sample()));
    document[ordered_json::json_pointer(broken.path)] = ordered_json::parse(broken.value);
    const Error error = Refusal(document);
    EXPECT_EQ(error.code, Code::kCorrupt) << broken.path;
    EXPECT_THAT(error.message, HasSubstr(broken.message)) << broken.path;
  }
  auto document = ordered_json::parse(WriteNodeRecord(Sample()));
  document["format_version"] = "2.0";
  EXPECT_EQ(Refusal(document).code, Code::kUnsupported);
  document["format_version"] = "1.1";
  document.erase("files");
  EXPECT_EQ(Refusal(document).code, Code::kCorrupt) << "digests cannot be dropped unnoticed";
}

}  // namespace
}  // namespace moepack::manifest
