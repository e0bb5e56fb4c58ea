// What the Hugging Face Hub answers: the commit of a revision, and pages of files.
#include "libshard/remote/hub_answers.h"

#include "libshard/base/files/inside_path.h"
#include "tests/fuzz/target.h"

namespace hub_answers_target {

using namespace moepack::remote;

constexpr const char* kWhere = "hf://damaged/model";

std::vector<std::string> Seeds() {
  const std::string sha1(40, 'a'), sha256(64, 'b');
  return {moepack::Cat(R"({"id": "damaged/model", "sha": ")", sha1, R"(", "private": false})"),
          moepack::Cat(R"([{"type": "file", "oid": ")", sha1,
                       R"(", "size": 12, "path": "config.json"}, {"type": "file", "oid": ")", sha1,
                       R"(", "size": 5000000000, "lfs": {"oid": ")", sha256,
                       R"(", "size": 5000000000, "pointerSize": 135}, "path": "a/b.safetensors"},)",
                       R"({"type": "directory", "oid": ")", sha1, R"(", "size": 0, "path": "a"}])"),
          "[]"};
}

std::string RevisionProblem(std::string_view input) {
  const auto revision = ParseHubRevision(kWhere, "hub.example", input);
  if (!revision) return fuzz::ErrorProblem(revision.error(), kWhere);
  return IsCommit(revision->commit) ? "" : "a commit that is none";
}

std::string FilesProblem(std::string_view input) {
  HubFiles files;
  const auto status = ParseHubFiles(kWhere, input, files);
  if (!status) return fuzz::ErrorProblem(status.error(), kWhere);
  for (const auto& [path, file] : files) {
    if (!moepack::StaysBelow(path)) return "a file outside: " + path;
    if (!file.sha256.empty() && file.sha256.size() != 64) return "a digest of another length";
    if (!file.sha256.empty() && file.id != file.sha256) return "a blob of another name";
  }
  return "";
}

std::string Check(std::string_view input) {
  const std::string problem = RevisionProblem(input);
  return problem.empty() ? FilesProblem(input) : problem;
}

constexpr fuzz::Target kTarget{Check, Seeds, 5000, 500};

}  // namespace hub_answers_target

FUZZ_JSON_TARGET(FuzzHubAnswers, hub_answers_target::kTarget)
