// A store in memory, and ways to damage its contents.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/progress.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/sign/signature_manifest.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

class MemoryStore final : public WritableStore {
 public:
  const std::string& name() const override { return name_; }
  Result<BlobRecord> FindTag(const std::string& tag) const override {
    if (outage) return Error{Code::kUnavailable, "memory: nobody answers"};
    const auto found = tags.find(tag);
    if (found == tags.end()) return Error{Code::kNotFound, Cat("memory: no tag ", tag)};
    return found->second;
  }
  Result<std::string> ReadManifest(const BlobRecord& manifest) const override {
    const auto found = texts.find(manifest.digest);
    if (found == texts.end())
      return Error{Code::kNotFound, Cat("memory: no manifest ", manifest.digest)};
    if (DigestOf(Sha256Hex(found->second)) == manifest.digest) return found->second;
    return Error{Code::kCorrupt, Cat("memory: manifest ", manifest.digest, ": other bytes")};
  }
  Result<std::vector<Tagged>> List() const override {
    std::vector<Tagged> all;
    for (const auto& [tag, manifest] : tags) all.push_back({tag, manifest});
    return all;
  }
  const SourceTree& blobs() const override { return tree_; }
  std::string FileOf(const BlobRecord& blob) const override { return HexOf(blob.digest); }
  Status CheckBlob(const BlobRecord& blob) const override {
    const auto found = texts.find(blob.digest);
    if (found == texts.end()) return Error{Code::kNotFound, "memory: no such blob"};
    if (found->second.size() == blob.size) return Ok();
    return Error{Code::kCorrupt, "memory: another size"};
  }
  Result<Added> AddFile(const SourceTree&, const std::string&, const BlobRecord&,
                        manifest::LinkKind, const PieceDone&) override {
    return Error{Code::kUnsupported, "memory: no files"};
  }
  Result<Added> AddText(const BlobRecord& blob, std::string_view text) override {
    Put(blob.digest, std::string(text));
    return Added{"copy"};
  }
  Result<Added> AddManifest(const BlobRecord& manifest, std::string_view text) override {
    return AddText(manifest, text);
  }
  Result<std::vector<std::string>> SetTags(const std::vector<NewTag>& all) override {
    if (before_write) before_write();
    std::vector<std::string> left;
    for (const NewTag& one : all) {
      const auto now = tags.find(one.tag);
      const std::string digest = now == tags.end() ? "" : now->second.digest;
      if (one.replaces && *one.replaces != digest)
        left.push_back(one.tag);
      else
        tags[one.tag] = one.manifest;
    }
    ++writes;
    if (after_write) after_write();
    return left;
  }
  std::chrono::milliseconds settling() const override {
    if (while_settling) while_settling();
    return std::chrono::milliseconds(while_settling ? 1 : 0);
  }

  // Stores a text under a digest, matching or not.
  void Put(const std::string& digest, const std::string& text) {
    texts[digest] = text;
    tree_.Add(HexOf(digest), text);
  }
  // Adds a manifest with this text and gives it the tag.
  std::string PutManifest(const std::string& tag, const std::string& text) {
    const TextBlob blob = MakeBlob(kManifestType, text);
    Put(blob.blob.digest, text);
    tags[tag] = blob.blob;
    return blob.blob.digest;
  }
  std::string TextOf(const std::string& tag) const { return texts.at(tags.at(tag).digest); }

  std::map<std::string, BlobRecord> tags;
  std::map<std::string, std::string> texts;  // by digest
  bool outage = false;
  int writes = 0;  // of tags
  // Another writer, who comes at the worst moment; the last one makes the store one without a lock.
  std::function<void()> before_write, after_write, while_settling;

 private:
  std::string name_ = "memory";
  MemoryTree tree_{"memory"};
};

}  // namespace moepack::registry
