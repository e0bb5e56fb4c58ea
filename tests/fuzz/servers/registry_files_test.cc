// Files beside a pull and an upload: the lock, the map of the cells that are there, and the journal
// of uploads.
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "manifest/document/pull_lock.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/server/upload_journal.h"
#include "manifest/registry/transfer/cell_map.h"
#include "tests/fuzz/target.h"

namespace registry_files_target {

using moepack::Cat;
using namespace moepack::registry;
using moepack::manifest::ParseLock;
using moepack::manifest::PullLock;
using moepack::manifest::WriteLock;

constexpr const char* kWhere = "damaged/side-file";
constexpr const char* kHost = "registry.example";
constexpr const char* kRepository = "team/model";
const std::string kSha256(64, 'a');

CellMap Cells() { return {kSha256, 1000, 100}; }

std::vector<std::string> Seeds() {
  CellMap some = Cells();
  some.Set(0, true);
  some.Set(9, true);
  PullLock lock{"oci://registry.example/team/model:v1", DigestOf(kSha256), {0, 3}, "overlay-1"};
  const std::string with_overlay = WriteLock(lock);
  lock.overlay.reset();
  return {with_overlay, WriteLock(lock), some.Text(), Cells().Text(),
          Cat(R"({"host": ")", kHost, R"(", "repository": ")", kRepository, R"(", "digest": ")",
              DigestOf(kSha256), R"(", "location": "https://registry.example/v2/u/1?s=x",)",
              R"( "offset": 300})")};
}

std::vector<std::string> Refused() {
  return {WriteLock({"oci://a.b/c", "sha256:12", {}, ""}), CellMap(kSha256, 1000, 50).Text(),
          CellMap(std::string(64, 'b'), 1000, 100).Text(),
          Cat(R"({"host": ")", kHost, R"(", "repository": "other", "digest": ")", DigestOf(kSha256),
              R"(", "location": "", "offset": 1})")};
}

std::string LockProblem(std::string_view input) {
  const auto lock = ParseLock(kWhere, input);
  if (!lock) return fuzz::ErrorProblem(lock.error(), kWhere);
  if (!IsDigest(lock->digest)) return "a digest that is none: " + lock->digest;
  const auto again = ParseLock(kWhere, WriteLock(*lock));
  if (!again) return Cat("refused after writing: ", again.error().message);
  return *again == *lock ? "" : "another lock after writing";
}

std::string CellsProblem(std::string_view input) {
  CellMap map = Cells();
  map.Set(1, true);
  const std::string before = map.Text();
  const auto status = map.Read(kWhere, input);
  if (!status) {
    if (map.Text() != before) return "a refused map that was adopted";
    return fuzz::ErrorProblem(status.error(), kWhere);
  }
  if (map.count() != Cells().count() || map.done_bytes() > map.size())
    return "more cells than the file has";
  CellMap again = Cells();
  return again.Read(kWhere, map.Text()) && again.Text() == map.Text() ? ""
                                                                      : "another map after writing";
}

// Where the journal keeps its only entry: the name is its own affair.
struct Journal {
  Journal() {
    (void)journal.Note(DigestOf(kSha256), {"https://registry.example/v2/u/0", 1});
    file = fuzz::FilesBelow(dir.path()).at(0);
  }
  fixtures::TempDir dir;
  UploadJournal journal{dir.path().string(), kHost, kRepository};
  std::filesystem::path file;
};

std::optional<UploadJournal::Entry> FindUpload(std::string_view input) {
  static const Journal kept;
  if (!fuzz::WriteInput(kept.file, input)) return std::nullopt;
  return kept.journal.Find(DigestOf(kSha256));
}

std::string UploadProblem(std::string_view input) {
  const auto entry = FindUpload(input);
  if (!entry) return "";
  const auto document = moepack::ParseJson(kWhere, input);
  if (!document) return "an entry from what is not JSON";
  const moepack::JsonFields fields(*document, kWhere);
  const auto text = [&](const char* key) { return fields.StringOr(key, "").value(); };
  if (text("host") != kHost || text("repository") != kRepository) return "an upload elsewhere";
  if (text("digest") != DigestOf(kSha256)) return "an upload of another blob";
  return fields.Unsigned("offset").value() == entry->offset ? "" : "another offset";
}

std::string Check(std::string_view input) {
  for (const auto& check : {LockProblem, CellsProblem, UploadProblem})
    if (std::string problem = check(input); !problem.empty()) return problem;
  return "";
}

bool Accepts(std::string_view input) {
  return ParseLock(kWhere, input).has_value() || Cells().Read(kWhere, input).has_value() ||
         FindUpload(input).has_value();
}

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 3000, .accepts = Accepts, .refused = Refused};

}  // namespace registry_files_target

FUZZ_JSON_TARGET(FuzzRegistryFiles, registry_files_target::kTarget)
