// What was put into a store by `publish`, `copy` and `tag`, and by their dry runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moepack::registry {

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
