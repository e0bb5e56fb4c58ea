#include "manifest/registry/store/layout_index.h"

#include <algorithm>

#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

constexpr const char* kTagKey = "org.opencontainers.image.ref.name";
constexpr size_t kMaxIndexValues = 1u << 18;
constexpr size_t kShownTags = 20;

std::string ListHint(const std::string& place) {
  return Cat("`", ShellCommand({"moepack", "ls", ReferenceText(LayoutAt(place))}),
             "` lists what the layout holds");
}

Json TaggedBlob(const std::string& tag, const BlobRecord& blob, const std::string& artifact_type) {
  Json out = {{"mediaType", blob.media_type}, {"digest", blob.digest}, {"size", blob.size}};
  out["annotations"] = {{kTagKey, tag}};
  if (!artifact_type.empty()) out["artifactType"] = artifact_type;
  return out;
}

}  // namespace

LayoutIndex::LayoutIndex()
    : document_({{"schemaVersion", 2}, {"mediaType", kIndexType}, {"manifests", Json::array()}}) {}

Result<LayoutIndex> LayoutIndex::Parse(const std::string& where, std::string_view text) {
  LayoutIndex index;
  SHARD_TRY(index.document_, ParseJsonObject(where, text, kMaxIndexValues));
  const JsonFields fields(index.document_, where);
  SHARD_TRY(const uint64_t version, fields.Unsigned("schemaVersion"));
  if (version != 2) return fields.Wrong("schemaVersion", "2");
  SHARD_TRY(const std::string type, fields.StringOr("mediaType", kIndexType));
  if (type != kIndexType) {
    return Error{Code::kUnsupported,
                 Cat(where, ": mediaType: expected ", kIndexType, ", found ", Quoted(type))};
  }
  SHARD_TRY(const Json* manifests, fields.Array("manifests"));
  for (const Json& value : *manifests) {
    SHARD_TRY(BlobRecord blob,
              BlobFromJson(Cat(where, ": manifest ", index.entries_.size()), value));
    std::string tag = AnnotationOf(blob.annotations, kTagKey);
    index.entries_.push_back({std::move(blob), std::move(tag)});
  }
  return index;
}

std::string LayoutIndex::Write() const { return document_.dump(); }

const LayoutIndex::Entry* LayoutIndex::FindTag(const std::string& tag) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.tag == tag; });
  return found == entries_.end() ? nullptr : &*found;
}

const LayoutIndex::Entry* LayoutIndex::FindDigest(const std::string& digest) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.blob.digest == digest; });
  return found == entries_.end() ? nullptr : &*found;
}

Result<BlobRecord> LayoutIndex::Find(const std::string& where, const std::string& tag) const {
  const Entry* found = FindTag(tag);
  if (found == nullptr) {
    std::vector<std::string> tags;
    for (const Entry& entry : entries_) {
      const bool signature = entry.tag.starts_with("sha256-");  // nobody types those
      if (entry.tag.empty() || signature || tags.size() == kShownTags) continue;
      tags.push_back(Shown(entry.tag));
    }
    return Error{Code::kNotFound,
                 Cat(where, ": tag: expected ", Quoted(tag), ", found ",
                     tags.empty() ? "no tag" : moepack::Join(tags, ", ")),
                 ListHint(where)};
  }
  for (const Entry& entry : entries_) {
    if (entry.tag != tag || entry.blob.digest == found->blob.digest) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": tag ", Quoted(tag), ": expected one manifest, found ",
                     found->blob.digest, " and ", entry.blob.digest),
                 "name one of them by its digest"};
  }
  return found->blob;
}

void LayoutIndex::SetTag(const std::string& tag, const BlobRecord& blob,
                         const std::string& artifact_type) {
  Json& manifests = document_["manifests"];
  const Entry* old = FindTag(tag);
  if (old != nullptr && old->blob.digest == blob.digest) return;
  if (old != nullptr) {
    const size_t at = static_cast<size_t>(old - entries_.data());
    manifests.get_ref<Json::array_t&>()[at] = TaggedBlob(tag, blob, artifact_type);
    entries_[at] = {blob, tag};
    return;
  }
  manifests.push_back(TaggedBlob(tag, blob, artifact_type));
  entries_.push_back({blob, tag});
}

void LayoutIndex::RemoveTag(const std::string& tag) {
  Json::array_t& manifests = document_["manifests"].get_ref<Json::array_t&>();
  for (size_t i = entries_.size(); i-- > 0;) {
    if (entries_[i].tag != tag) continue;
    manifests.erase(manifests.begin() + static_cast<ptrdiff_t>(i));
    entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(i));
  }
}

}  // namespace moepack::registry
