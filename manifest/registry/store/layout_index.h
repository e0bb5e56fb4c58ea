// index.json of an OCI image layout: which manifests there are, and their tags.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "manifest/registry/artifact/oci_manifest.h"

namespace moepack::registry {

// Preserves what other tools wrote into it: unknown fields, annotations and entries stay as they
// are.
class LayoutIndex {
 public:
  struct Entry {
    BlobRecord blob;
    std::string tag;  // "" for an entry without one
  };

  LayoutIndex();  // without manifests
  // The text may be hostile. kUnsupported for another media type, otherwise kCorrupt.
  static Result<LayoutIndex> Parse(const std::string& where, std::string_view text);
  std::string Write() const;

  const std::vector<Entry>& entries() const { return entries_; }
  // The manifest with this tag; kNotFound with the existing tags, kCorrupt if two manifests have
  // it.
  Result<BlobRecord> Find(const std::string& where, const std::string& tag) const;
  // Null if nothing has the tag, or the digest.
  const Entry* FindTag(const std::string& tag) const;
  const Entry* FindDigest(const std::string& digest) const;
  // Gives the tag to a manifest, and removes it from any other. `artifact_type` is that of the
  // manifest; "" for none.
  void SetTag(const std::string& tag, const BlobRecord& blob,
              const std::string& artifact_type = kArtifactType);
  // Removes every entry with this tag. A manifest without another tag is then no longer listed.
  void RemoveTag(const std::string& tag);

 private:
  Json document_;
  std::vector<Entry> entries_;
};

}  // namespace moepack::registry
