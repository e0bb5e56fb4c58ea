// Puts a distribution into an image layout or a registry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/open_store.h"
#include "manifest/write/link_file.h"

namespace moepack::registry {

struct PublishOptions {
  // How bundles get into a layout; small files are always copied, since people edit them.
  // REQUIRES: not kSymlink.
  manifest::LinkKind link = manifest::LinkKind::kAuto;
  bool views = true;              // also one manifest per group, under "<tag>-gNNN"
  bool allow_incomplete = false;  // publish the parts that are there
  bool force = false;             // move tags that name another manifest
  // More tags for the same manifests, which are moved without `force`; views get "-gNNN" behind
  // them.
  std::vector<std::string> moving_tags = {};
  bool dry_run = false;
  StoreAccess access = {};
  PackOptions pack = {};  // its jobs and progress
};

struct PublishReport {
  struct Blob {
    std::string name;  // "trunk/trunk.gguf", "manifest v1"
    std::string digest;
    uint64_t bytes = 0;
    // As in Added; "" in a dry run.
    std::string how = {};
    bool there = false;
  };
  struct Tag {
    std::string tag, digest;
    std::optional<uint32_t> group = std::nullopt;  // of a node view
    std::string before = {};                       // the digest that it had; "" if it is new
    bool moving = false;
  };
  std::vector<Blob> blobs;            // each once, in the order of the layers
  std::vector<Tag> tags;              // the set first
  std::vector<std::string> absent;    // what an incomplete distribution lacks
  std::vector<std::string> warnings;  // about blobs that were mended
  std::string digest() const { return tags[0].digest; }
  uint64_t added_bytes() const;  // of blobs that were not there, linked ones too
  uint64_t bytes_by(const std::string& how) const;
  uint64_t there_bytes() const;
};

// Publishes a distribution of this machine under the tag of `to`, by default kDefaultTag. Equal
// distributions give equal digests. Every file is compared with its SHA-256 while it is placed
// (kMismatch); tags, which alone make manifests visible, are set at the very end. A tag
// that names another manifest is kInvalidArgument without `force`, and so are an incomplete
// distribution without `allow_incomplete` and a reference with a digest.
Result<PublishReport> Publish(const std::string& distribution, const Reference& to,
                              const PublishOptions& options);

}  // namespace moepack::registry
