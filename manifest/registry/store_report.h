// What `publish`, `copy` and `tag` are to put into a store, and what they did, or would do in a dry
// run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/pack/pack.h"
#include "manifest/registry/open_store.h"
#include "manifest/write/link_file.h"

namespace moepack::registry {

struct PutOptions {
  // How bundles get into a layout; no value: kAuto. What people edit is always copied. REQUIRES:
  // not kSymlink.
  std::optional<manifest::LinkKind> link = std::nullopt;
  bool views = true;              // also the node views of a set, under "<tag>-gNNN"
  bool signatures = true;         // Copy: also the signatures of what is copied
  bool allow_incomplete = false;  // Publish: the parts of a distribution that are there
  // Move tags that name a different manifest; PublishFiles: replace an output that moepack wrote.
  bool force = false;
  // Publish: more tags for the same manifests, which are moved without `force`; those of views end
  // in "-gNNN".
  std::vector<std::string> moving_tags = {};
  bool dry_run = false;
  StoreAccess access = {};
  PackOptions pack = {};  // its jobs and progress
};

struct StoreReport {
  struct Blob {
    std::string name;  // "trunk/trunk.gguf", "manifest v1"
    std::string digest;
    uint64_t bytes = 0;
    // As in Added; in a dry run "" for what does not exist.
    std::string how = {};
    bool there = false;
  };
  struct Tag {
    std::string tag, digest;
    std::optional<uint32_t> group = std::nullopt;  // of a node view
    std::string before = {};                       // the previous digest; "" if it is new
    bool moving = false;                           // moved without `force`
  };
  std::vector<Blob> blobs;            // each once, in the order of the layers
  std::vector<Tag> tags;              // of the requested manifest first
  std::vector<std::string> absent;    // what an incomplete distribution lacks
  std::optional<uint32_t> group;      // the first that a distribution has, for a command to pull it
  std::vector<std::string> warnings;  // about blobs that were replaced
  std::string digest() const { return tags[0].digest; }
  uint64_t added_bytes() const;  // of blobs that did not exist, including linked ones
  uint64_t bytes_by(const std::string& how) const;
  uint64_t there_bytes() const;
};

}  // namespace moepack::registry
