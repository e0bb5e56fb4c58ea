#include "manifest/registry/stored_manifest.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/sign/signature_manifest.h"

namespace moepack::registry {
namespace {

// "007" -> 7; no other spelling of 7 is accepted.
std::optional<uint32_t> GroupOf(const std::string& text) {
  const std::optional<uint64_t> number = ParseUint(text);
  if (!number || *number > UINT32_MAX || GroupText(*number) != text) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

// The group of which this is a view of the set, if it is one.
Result<std::optional<uint32_t>> GroupOfView(const std::string& where, const StoredManifest& stored,
                                            const std::string& set_digest) {
  const auto oci = ParseOciManifest(where, stored.text);
  if (!oci && oci.error().code == Code::kUnsupported) return std::optional<uint32_t>();
  if (!oci) return oci.error();
  if (AnnotationOf(oci->annotations, kViewOfKey) != set_digest) return std::optional<uint32_t>();
  const std::string text = AnnotationOf(oci->annotations, kViewGroupKey);
  const std::optional<uint32_t> group = GroupOf(text);
  if (group) return group;
  return Error{Code::kCorrupt,
               Cat(where, ": ", kViewGroupKey, ": expected a group, found ", Quoted(text))};
}

}  // namespace

Result<StoredManifest> ReadStored(const Store& store, const BlobRecord& blob) {
  StoredManifest stored{{blob.media_type, blob.digest, blob.size}, ""};
  SHARD_TRY(stored.text, store.ReadManifest(stored.blob));
  stored.blob.size = stored.text.size();
  const std::string where = store.NameOf(stored.blob);
  std::string& type = stored.blob.media_type;
  if (type.empty()) {
    SHARD_TRY(type, ManifestTypeOf(where, stored.text));
    return stored;
  }
  SHARD_TRY(const Json document, ParseJson(where, stored.text));
  const std::string own = TextMember(document, "mediaType");
  if (own.empty() || own == type) return stored;
  return Error{Code::kCorrupt,
               Cat(where, ": mediaType: expected ", Quoted(type), ", found ", Quoted(own))};
}

Result<StoredManifest> FindStored(const Store& store, const Reference& reference) {
  if (!reference.digest.empty()) return ReadStored(store, {"", reference.digest});
  SHARD_TRY(const BlobRecord blob, store.FindTag(reference.tag_or_default()));
  return ReadStored(store, blob);
}

Result<std::vector<StoredView>> FindViews(const Store& store, const std::string& set_digest) {
  SHARD_TRY(const std::vector<Tagged> listed, store.List());
  std::map<std::string, std::optional<StoredView>> by_digest;
  for (const Tagged& one : listed) {
    const BlobRecord& blob = one.manifest;
    if (blob.digest == set_digest || blob.media_type != kManifestType) continue;
    const auto [place, is_new] = by_digest.try_emplace(blob.digest);
    if (is_new) {
      SHARD_TRY(StoredManifest stored, ReadStored(store, blob));
      SHARD_TRY(const std::optional<uint32_t> group,
                GroupOfView(store.NameOf(blob), stored, set_digest));
      if (group) place->second = StoredView{std::move(stored), *group, {}};
    }
    if (place->second && !one.tag.empty()) place->second->tags.push_back(one.tag);
  }
  std::vector<StoredView> views;
  for (auto& [digest, view] : by_digest) {
    if (view) views.push_back(*std::move(view));
  }
  std::sort(views.begin(), views.end(),
            [](const StoredView& a, const StoredView& b) { return a.group < b.group; });
  return views;
}

std::vector<StoredView> OneOfEachGroup(std::vector<StoredView> views, const std::string& tag) {
  const auto is_tagged = [&](const StoredView& view) {
    const std::string wanted = Cat(tag, "-g", GroupText(view.group));
    return std::count(view.tags.begin(), view.tags.end(), wanted) > 0;
  };
  std::map<uint32_t, StoredView> by_group;
  for (StoredView& view : views) {
    const auto there = by_group.find(view.group);
    if (there == by_group.end()) {
      by_group.emplace(view.group, std::move(view));
    } else if (!is_tagged(there->second) && is_tagged(view)) {
      there->second = std::move(view);
    }
  }
  std::vector<StoredView> chosen;
  for (auto& [group, view] : by_group) chosen.push_back(std::move(view));
  return chosen;
}

Result<std::optional<StoredManifest>> FindStoredSignatures(const Store& store,
                                                           const std::string& digest) {
  const auto found = store.FindTag(SignatureTag(digest));
  if (!found && found.error().code == Code::kNotFound) return std::optional<StoredManifest>();
  if (!found) return found.error();
  // A distribution as files answers to every tag.
  if (found->digest == digest) return std::optional<StoredManifest>();
  SHARD_TRY(StoredManifest stored, ReadStored(store, *found));
  return std::optional(std::move(stored));
}

}  // namespace moepack::registry
