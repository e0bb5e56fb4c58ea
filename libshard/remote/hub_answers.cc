#include "libshard/remote/hub_answers.h"

#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr const char* kBrokenHub =
    "this is not a Hub, or a proxy in between is broken: check HF_ENDPOINT";

Result<HubFile> ReadEntry(const JsonFields& entry) {
  HubFile file;
  SHARD_TRY(file.size, entry.Unsigned("size"));
  SHARD_TRY(file.id, entry.String("oid"));
  if (!entry.Has("lfs")) return file;
  SHARD_TRY(const Json* lfs, entry.Object("lfs"));
  SHARD_TRY(file.sha256, JsonFields(*lfs, entry.where()).String("oid"));
  file.sha256 = Lower(file.sha256);
  constexpr size_t kDigits = 64;
  if (!IsHex(file.sha256, kDigits)) {
    return Error{Code::kCorrupt,
                 Cat(entry.where(), ": lfs.oid: expected 64 hexadecimal digits, found ",
                     Quoted(file.sha256)),
                 kBrokenHub};
  }
  file.id = file.sha256;
  return file;
}

}  // namespace

bool IsCommit(std::string_view text) {
  constexpr size_t kDigits = 40;
  return IsHex(text, kDigits);
}

Result<HubRevision> ParseHubRevision(const std::string& source, const std::string& host,
                                     std::string_view answer) {
  SHARD_TRY(const Json document, ParseJson(Cat(source, ": answer of the Hub"), answer));
  HubRevision revision;
  revision.commit = TextMember(document, "sha");
  revision.id = TextMember(document, "id");
  if (IsCommit(revision.commit)) return revision;
  return Error{
      Code::kIo,
      Cat(source, ": ", host, ": expected the commit that the revision stands for, found none"),
      kBrokenHub};
}

Status ParseHubFiles(const std::string& where, std::string_view answer, HubFiles& files) {
  SHARD_TRY(const Json entries, ParseJson(where, answer));
  if (!entries.is_array())
    return Error{Code::kCorrupt, Cat(where, ": expected an array, found ", DescribeJson(entries))};
  for (const Json& entry : entries) {
    const std::string path = TextMember(entry, "path");
    if (TextMember(entry, "type") != "file" || !IsSafeRelativePath(path)) continue;
    SHARD_TRY(files[path], ReadEntry(JsonFields(entry, Cat(where, ": ", Quoted(path)))));
  }
  return Ok();
}

}  // namespace moepack::remote
