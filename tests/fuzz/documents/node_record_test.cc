// ParseNodeRecord: a parsed record can be written and read back, and names only files beside it.
#include "manifest/document/node_record.h"

#include "tests/fuzz/target.h"

namespace node_record_target {

constexpr const char* kWhere = "damaged/moepack_node.json";

std::vector<std::string> Seeds() {
  moepack::manifest::NodeRecord record;
  record.versions = {"0123456789abcdef", "123456789abcdef0", "23456789abcdef01"};
  record.group = 1;
  record.experts_by_layer = {{"0", "3,6-11"}, {"1", "0,6-11"}};
  record.distribution_sha256 = std::string(64, 'd');
  record.tool_version = "1.0.0";
  record.recipe = {"Q4_K_M", "m.gguf", std::string(64, 'e')};
  record.files = {{"node-00001-of-00003.gguf", 4096, std::string(64, 'a')},
                  {"node-00002-of-00003.gguf", 8192, std::string(64, 'b')}};
  return {WriteNodeRecord(record),
          R"({"format": "moepack-node", "format_version": "1.0", "versions": {"model":
          "0123456789abcdef", "shard": "123456789abcdef0", "replica": ""}, "group": 0,
          "experts": {"*": "0-5"}})"};
}

std::string Check(std::string_view input) {
  const auto read = moepack::manifest::ParseNodeRecord(kWhere, input);
  if (!read) return fuzz::ErrorProblem(read.error(), kWhere);
  for (const moepack::manifest::NodeFileRecord& file : read->files) {
    if (file.file.find('/') != std::string::npos || file.file == "..") return "a path outside";
  }
  if (!read->has_digests()) return "";
  const std::string text = WriteNodeRecord(*read);
  const auto again = moepack::manifest::ParseNodeRecord(kWhere, text);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  return WriteNodeRecord(*again) == text ? "" : "another record after writing twice";
}

constexpr fuzz::Target kTarget{Check, Seeds, 3000};

}  // namespace node_record_target

FUZZ_JSON_TARGET(FuzzNodeRecord, node_record_target::kTarget)
