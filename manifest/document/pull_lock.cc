#include "manifest/document/pull_lock.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/text/record.h"
#include "libshard/base/text/text.h"
#include "manifest/document/file_names.h"

namespace moepack::manifest {
namespace {

constexpr uint64_t kMaxLock = 1u << 20;
constexpr uint64_t kLockVersion = 1;

Result<std::string> ReadSetDigest(const JsonFields& fields, const char* name) {
  SHARD_TRY(std::string digest, fields.String(name));
  constexpr std::string_view kAlgorithm = "sha256:";
  if (digest.starts_with(kAlgorithm) && IsHex(digest.substr(kAlgorithm.size()), 64)) return digest;
  return fields.Wrong(name, "sha256: and 64 hexadecimal digits");
}

Result<std::vector<uint32_t>> ReadPulledGroups(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, fields.Array(name));
  std::vector<uint32_t> groups;
  for (const Json& group : *list) {
    const bool number =
        group.is_number_unsigned() && group.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
    if (!number) return fields.Wrong(name, "a list of group numbers");
    groups.push_back(group.get<uint32_t>());
  }
  return groups;
}

// After the version.
constexpr Field<PullLock> kLockFields[] = {
    {"reference", AsText<&PullLock::reference>},
    {"digest", As<&PullLock::digest, ReadSetDigest>},
    {"groups", As<&PullLock::groups, ReadPulledGroups>},
    {"overlay", AsText<&PullLock::overlay>, Presence::kDefaulted},
};

Result<PullLock> LockFrom(const JsonFields& fields) {
  SHARD_TRY(const uint64_t version, fields.Unsigned("version"));
  if (version != kLockVersion) return fields.Wrong("version", "1");
  PullLock lock;
  lock.overlay.reset();
  SHARD_CHECK(ReadFields(kLockFields, fields, lock));
  return lock;
}

}  // namespace

std::string WriteLock(const PullLock& lock) {
  Json document = {{"version", kLockVersion}};
  WriteFields(kLockFields, lock, document);
  return WriteJson(document);
}

Result<PullLock> ParseLock(const std::string& where, std::string_view text) {
  const auto document = ParseJson(where, text);
  auto lock =
      document ? LockFrom(JsonFields(*document, where)) : Result<PullLock>(document.error());
  if (lock) return lock;
  Error error = std::move(lock).error();
  error.hint = "remove the file: the next pull writes it again";
  return error;
}

Result<std::optional<PullLock>> ReadLock(const std::string& directory) {
  auto opened = InsideDirectory::Open(directory);
  if (!opened && opened.error().code == Code::kNotFound) return std::optional<PullLock>();
  if (!opened) return opened.error();
  SHARD_TRY(const InsideDirectory::Kind kind, opened->KindOf(kPullLockFile));
  if (kind == InsideDirectory::Kind::kNothing) return std::optional<PullLock>();
  SHARD_TRY(const std::string text, opened->ReadText(kPullLockFile, kMaxLock));
  SHARD_TRY(PullLock lock, ParseLock(Cat(directory, "/", manifest::kPullLockFile), text));
  return std::optional(std::move(lock));
}

Result<DefaultOverlay> OverlayByDefault(const SourceTree& distribution, const Plan& plan) {
  const auto directory = distribution.LocalPath("");
  if (!directory || plan.overlays.empty()) return DefaultOverlay();
  SHARD_TRY(const std::optional<PullLock> lock, ReadLock(directory->string()));
  if (!lock || lock->overlay == "" || lock->overlay == plan.current_overlay()->version)
    return DefaultOverlay();
  DefaultOverlay chosen{.version = lock->overlay.value_or(""), .none = !lock->overlay};
  chosen.note = Cat(distribution.NameOf(kPullLockFile), ": ",
                    chosen.none ? "pulled without an overlay, so none is taken"
                                : Cat("overlay ", Quoted(chosen.version),
                                      " was pulled, so it is taken instead of the current one"));
  return chosen;
}

}  // namespace moepack::manifest
